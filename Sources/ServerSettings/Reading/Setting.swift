import Bytes
package import Cryptography
package import JSON

/// A setting: one row, from which come errors, variable, documents and the example configuration.
struct Setting<Value: Sendable>: SettingRow {
  let path: String
  let type: SettingType<Value>
  let fallback: Value?
  let isSecret: Bool
  let example: String?
  let fixed: FixedPart?
  let text: String

  init(
    _ path: String, _ type: SettingType<Value>, default fallback: Value? = nil, isSecret: Bool = false,
    example: String? = nil, fixed: FixedPart? = nil, _ text: String
  ) {
    (self.path, self.type, self.fallback, self.isSecret) = (path, type, fallback, isSecret)
    (self.example, self.fixed, self.text) = (example, fixed, text)
  }

  var isJSON5: Bool { type.isJSON5 }
  var values: String? { type.values }
  var defaultText: String? { fallback.map(type.write) }
  var members: [any SettingRow] { type.members }
  func canonical(_ content: RawSetting.Content) -> String? { (try? type.parse(content, nil)).map(type.write) }
}

/// A setting without its value's type: the properties to find it and to document it.
protocol SettingRow: Sendable {
  /// The path in the file, with components joined by dots.
  var path: String { get }
  /// The purpose, in sentences of Markdown on one line.
  var text: String { get }
  /// A value for the example configuration in JSON5, if the setting has no fixed default.
  var example: String? { get }
  /// Whether errors must not quote the value, and flags must not set it.
  var isSecret: Bool { get }
  /// What a running server keeps until its restart if the setting changes. Nil if a reload uses the new value.
  var fixed: FixedPart? { get }
  /// The default in JSON5. Nil if there is no fixed one.
  var defaultText: String? { get }
  // Of the type; see SettingType.
  var isJSON5: Bool { get }
  var values: String? { get }
  var members: [any SettingRow] { get }
  /// Returns `content` as canonical JSON5, or nil if the setting refuses it.
  func canonical(_ content: RawSetting.Content) -> String?
}

extension SettingRow {
  var variable: String { variableName(of: path) }

  /// The members and their members, each with its path from this setting, in the order of the documents.
  var descendants: [(path: String, row: any SettingRow)] {
    members.flatMap { member in
      [(member.path, member)] + member.descendants.map { ("\(member.path).\($0.path)", $0.row) }
    }
  }
}

/// The written value of a setting, before parsing.
package struct RawSetting: Sendable {
  package enum Content: Sendable {
    /// JSON5, from the file or from a variable or flag.
    case json(JSONValue)
    /// Text from a variable or flag, where numbers and strings look alike.
    case text(String)
    /// A secret from a variable that was removed from the environment.
    case secret(SecretBytes)

    var string: String? {
      switch self {
      case .text(let text): text
      case .json(let value): value.string?.text
      case .secret: nil
      }
    }

    var number: String? {
      switch self {
      case .text(let text), .json(.number(let text)): text
      case .json, .secret: nil
      }
    }
  }

  let content: Content
  let source: SettingSource
}

package enum SettingSource: Sendable, Equatable, CustomStringConvertible {
  case file(String)
  case environment(String)
  /// The command-line flag with this name, including its dashes.
  case flag(String)

  /// The folder of the configuration file, with its slash, as its path says; nil without a folder, for a pipe such as
  /// `/dev/stdin` or a shell's `<(…)`, and for other places.
  var folder: String? {
    guard case .file(let path) = self, !["/dev/fd/", "/dev/stdin", "/proc/"].contains(where: path.hasPrefix),
      let slash = path.lastIndex(of: "/")
    else { return nil }
    return String(path[...slash])
  }

  /// `file config.json5`, `SERVER_PORT` or `--port`. If the file's path looks like a key, it is not shown.
  package var description: String {
    switch self {
    case .file(let path) where looksLikeKey(path): "file (\(path.utf8.count) bytes)"
    case .file(let path):
      // A terminal may take some characters for a command instead of showing them.
      "file "
        + path.unicodeScalars.map {
          $0.properties.generalCategory == .control || $0.properties.generalCategory == .format ? "?" : String($0)
        }.joined()
    case .environment(let name), .flag(let name): name
    }
  }
}

/// Returns the environment variable of a path: `server.tls.certificateFile` is `SERVER_TLS_CERTIFICATE_FILE`.
///
/// A word starts at a capital after a small letter. A run of capitals is one word, but if a small letter follows it,
/// its last capital starts the next word: `maxTTL` is `MAX_TTL`, and `clientCAFile` is `CLIENT_CA_FILE`.
func variableName(of path: String) -> String {
  let letters = Array(path)
  var name = ""
  for (index, letter) in letters.enumerated() {
    if letter.isUppercase, index > 0 {
      let endsRun = letters[index - 1].isUppercase && letters[(index + 1)...].first?.isLowercase == true
      if letters[index - 1].isLowercase || endsRun { name += "_" }
    }
    name += letter == "." ? "_" : letter.uppercased()
  }
  return name
}

struct SettingsSchema: Sendable {
  let settings: [String: any SettingRow]
  /// The paths of the objects that contain settings. The path of the whole file is empty.
  let sections: Set<String>

  init(_ known: [any SettingRow]) {
    settings = Dictionary(known.map { ($0.path, $0) }) { first, _ in first }
    sections = Set(known.flatMap { Self.sections(above: $0.path) } + [""])
  }

  /// Returns the sections that contain a path, the whole file last.
  static func sections(above path: String) -> [String] {
    let components = path.split(separator: ".")
    return components.indices.reversed().map { components[..<$0].joined(separator: ".") }
  }

  /// Returns whether there is a setting with this path. An object without rows allows members of any name.
  func knows(_ path: String) -> Bool { settings.isEmpty || settings[path] != nil }

  /// The sections with a variable of their own. The outermost have none, because other programs use variables such as
  /// `TOKEN` and `SERVER`.
  var variableSections: [String] { sections.filter { $0.contains(".") }.sorted() }

  func members(of section: String) -> [String] {
    let prefix = section.isEmpty ? "" : section + "."
    let within = (Array(settings.keys) + sections).filter { $0.hasPrefix(prefix) && $0.count > prefix.count }
    return Set(within.map { String($0.dropFirst(prefix.count).prefix { $0 != "." }) }).sorted()
  }

  /// Names the objects of a path, or a similar sibling, or a setting with the same name elsewhere, or all siblings.
  func remedy(unknown name: String, in section: String) -> String {
    let siblings = members(of: section)
    let prefix = section.isEmpty ? "" : section + "."
    if name.contains("."), settings[prefix + name] != nil || sections.contains(prefix + name) {
      let nested = name.split(separator: ".").reversed().reduce("…") { $0 == "…" ? "\($1): …" : "\($1): { \($0) }" }
      return "write \(nested)"
    }
    let near = nearest(to: name, among: siblings)
    if let near, editDistance(name.lowercased(), near.lowercased()) <= max(2, name.count / 3) {
      return "the nearest is \(prefix)\(near)"
    }
    if let elsewhere = settings.keys.sorted().first(where: { $0.hasSuffix(".\(name)") }) {
      return "the nearest is \(elsewhere)"
    }
    let all = siblings.map { prefix + $0 }.joined(separator: ", ")
    return "the nearest is \(prefix)\(near ?? ""), of \(all)"
  }

  func remedy(unknown name: String, inObjectAt path: String) -> String {
    let names = settings.keys.sorted()
    return "the nearest is \(path).\(nearest(to: name, among: names) ?? ""), of \(names.joined(separator: ", "))"
  }
}

/// The variables that Kubernetes sets for each service, like Docker links in the past: a service with the name `server`
/// gives every pod of its namespace `SERVER_PORT=tcp://10.0.0.1:8080`.
enum ServiceLink {
  static func isName(_ name: String) -> Bool {
    if name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
      return true
    }
    let parts = name.split(separator: "_")
    guard let transport = parts.lastIndex(where: { ["TCP", "UDP", "SCTP"].contains($0) }) else { return false }
    return transport >= 2 && parts[transport - 2] == "PORT" && UInt16(parts[transport - 1]) != nil
  }

  /// Returns whether `value` is a value of such a variable: an address that no setting accepts.
  static func isValue(_ value: String) -> Bool { ["tcp://", "udp://", "sctp://"].contains(where: value.hasPrefix) }
}

/// Returns the number of letters to change, add, remove or swap with a neighbor to turn `b` into `a` (the optimal string
/// alignment distance). A transposition, the most common typing error, counts once.
func editDistance(_ a: String, _ b: String) -> Int {
  let a = Array(a.utf8), b = Array(b.utf8)
  var beforeLast: [Int] = []
  var last = Array(0...b.count)
  for i in a.indices {
    var row = [i + 1]
    for j in b.indices {
      var best = min(last[j + 1] + 1, row[j] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
      if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { best = min(best, beforeLast[j - 1] + 1) }
      row.append(best)
    }
    beforeLast = last
    last = row
  }
  return last[b.count]
}

/// Returns the candidate most similar to `name`, ignoring case; the first one if several are equal. Only the first 64 bytes
/// of the name count, because a file can contain names of any length.
func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
  let name = String(decoding: name.lowercased().utf8.prefix(64), as: UTF8.self)
  return candidates.min { editDistance(name, $0.lowercased()) < editDistance(name, $1.lowercased()) }
}
