import Bytes
package import Cryptography
package import JSON

/// A setting: one row. The reader, the errors, the environment, the documents and the example configuration use only
/// this row.
struct Setting<Value: Sendable>: SettingRow {
  let path: String
  let type: SettingType<Value>
  /// The value of a setting that was not written. Nil if there is no fixed default.
  let fallback: Value?
  let isSecret: Bool
  let example: String?
  let fixed: FixedPart?
  let text: String

  init(
    _ path: String, _ type: SettingType<Value>, default fallback: Value? = nil, isSecret: Bool = false,
    example: String? = nil, fixed: FixedPart? = nil, _ text: String
  ) {
    self.path = path
    self.type = type
    self.fallback = fallback
    self.isSecret = isSecret
    self.example = example
    self.fixed = fixed
    self.text = text
  }
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
  /// Whether a variable or flag has the value as JSON5 instead of plain text.
  var isJSON5: Bool { get }
  /// The valid values in a few words. Nil if ``text`` describes them.
  var values: String? { get }
  /// The default in JSON5. Nil if there is no fixed one.
  var defaultText: String? { get }
  /// The rows of the setting's object, or of each object of its list.
  var members: [any SettingRow] { get }
  /// Returns `content` as canonical JSON5, or nil if the setting refuses it.
  func canonical(_ content: RawSetting.Content) -> String?
}

extension SettingRow {
  /// The environment variable of the setting.
  var variable: String { variableName(of: path) }

  /// The members and their members, each with its path from this setting, in the order of the documents.
  var descendants: [(path: String, row: any SettingRow)] {
    members.flatMap { member in
      [(member.path, member)] + member.descendants.map { ("\(member.path).\($0.path)", $0.row) }
    }
  }
}

extension Setting {
  var isJSON5: Bool { type.isJSON5 }
  var values: String? { type.values }
  var defaultText: String? { fallback.map(type.write) }
  var members: [any SettingRow] { type.members }

  func canonical(_ content: RawSetting.Content) -> String? { (try? type.parse(content, nil)).map(type.write) }
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

    /// The text of a string.
    var string: String? {
      switch self {
      case .text(let text): text
      case .json(let value): value.string?.text
      case .secret: nil
      }
    }

    /// The text of a number.
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

/// The place where a setting was written.
public enum SettingSource: Sendable, Equatable, CustomStringConvertible {
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
  public var description: String {
    switch self {
    case .file(let path):
      looksLikeKey(path)
        ? "file (\(path.utf8.count) bytes)"
        : "file " + path.unicodeScalars.map { $0.isControl ? "?" : String($0) }.joined()
    case .environment(let name), .flag(let name): name
    }
  }
}

extension Unicode.Scalar {
  /// Whether a terminal may take the character for a command instead of showing it.
  fileprivate var isControl: Bool { properties.generalCategory == .control || properties.generalCategory == .format }
}

/// Returns the environment variable of a path: `server.tls.certificateFile` is `SERVER_TLS_CERTIFICATE_FILE`.
///
/// A word starts at a capital after a small letter. A run of capitals is one word, but if a small letter follows it,
/// its last capital starts the next word: `maxTTL` is `MAX_TTL`, and `clientCAFile` is `CLIENT_CA_FILE`.
func variableName(of path: String) -> String {
  let capitals = UInt8(ascii: "A")...UInt8(ascii: "Z")
  let smallLetters = UInt8(ascii: "a")...UInt8(ascii: "z")
  let letters = Array(path.utf8)
  var name: [UInt8] = []
  for (index, letter) in letters.enumerated() {
    let previous = index == 0 ? nil : letters[index - 1]
    let next = index + 1 == letters.count ? nil : letters[index + 1]
    if capitals.contains(letter), let previous {
      let endsRun = capitals.contains(previous) && next.map(smallLetters.contains) == true
      if smallLetters.contains(previous) || endsRun { name.append(UInt8(ascii: "_")) }
    }
    // The difference between a capital and its small letter in ASCII is one bit.
    name.append(
      letter == UInt8(ascii: ".") ? UInt8(ascii: "_") : smallLetters.contains(letter) ? letter & 0xDF : letter)
  }
  return String(decoding: name, as: UTF8.self)
}

/// The known settings and their sections.
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

  /// The sections that have their own variable. The outermost sections have none, because other programs use variables
  /// such as `TOKEN` and `SERVER`.
  var variableSections: [String] { sections.filter { $0.contains(".") }.sorted() }

  /// Returns the names that the object at `section` may have.
  func members(of section: String) -> [String] {
    let prefix = section.isEmpty ? "" : section + "."
    let within = (Array(settings.keys) + sections).filter { $0.hasPrefix(prefix) && $0.count > prefix.count }
    return Set(within.map { String($0.dropFirst(prefix.count).prefix { $0 != "." }) }).sorted()
  }

  /// Returns the advice for an unknown `name` in `section`: the objects of a path, a similar sibling, otherwise a setting
  /// with the same name elsewhere, otherwise all siblings.
  func remedy(unknown name: String, in section: String) -> String {
    let siblings = members(of: section)
    let prefix = section.isEmpty ? "" : section + "."
    if name.contains("."), settings[prefix + name] != nil || sections.contains(prefix + name) {
      return
        "write \(name.split(separator: ".").reversed().reduce("…") { $0 == "…" ? "\($1): …" : "\($1): { \($0) }" })"
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

  /// Returns the advice for an unknown member `name` of the object at `path`.
  func remedy(unknown name: String, inObjectAt path: String) -> String {
    let names = settings.keys.sorted()
    return "the nearest is \(path).\(nearest(to: name, among: names) ?? ""), of \(names.joined(separator: ", "))"
  }

  /// Returns the known variable that is most similar to `name`.
  func nearestVariable(to name: String) -> String? {
    nearest(to: name, among: settings.keys.sorted().map(variableName(of:)))
  }
}

/// The variables that Kubernetes sets for each service, like Docker links in the past: a service with the name `server`
/// gives every pod of its namespace `SERVER_PORT=tcp://10.0.0.1:8080`.
enum ServiceLink {
  /// Returns whether `name` has the form of such a variable, regardless of its value.
  static func isName(_ name: String) -> Bool {
    if name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
      return true
    }
    let parts = name.split(separator: "_")
    guard let protocolIndex = parts.lastIndex(where: { ["TCP", "UDP", "SCTP"].contains($0) }), protocolIndex >= 2
    else { return false }
    return parts[protocolIndex - 2] == "PORT" && UInt16(parts[protocolIndex - 1]) != nil
  }

  /// Returns whether `value` is a value of such a variable: an address that no setting accepts.
  static func isValue(_ value: String) -> Bool {
    ["tcp://", "udp://", "sctp://"].contains { value.hasPrefix($0) }
  }
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
