package import Cryptography

/// A setting: one row, which is all that the reader, the errors, the environment, the documents and the example
/// configuration know of it.
struct Setting<Value: Sendable>: SettingRow {
  let path: String
  let type: SettingType<Value>
  /// The value if the setting is not written; nil if it has no fixed default.
  let fallback: Value?
  let isSecret: Bool
  let example: String?
  let text: String

  init(
    _ path: String, _ type: SettingType<Value>, default fallback: Value? = nil, isSecret: Bool = false,
    example: String? = nil, _ text: String
  ) {
    self.path = path
    self.type = type
    self.fallback = fallback
    self.isSecret = isSecret
    self.example = example
    self.text = text
  }
}

/// What is known of a setting without its value's type: enough to find it, and to document it.
protocol SettingRow: Sendable {
  /// Its path in the file, the components joined by dots.
  var path: String { get }
  /// What it is for, in sentences of Markdown on one line.
  var text: String { get }
  /// A value for the example configuration, in JSON5, if the setting has no fixed default.
  var example: String? { get }
  /// Whether errors must not quote the value and flags must not carry it.
  var isSecret: Bool { get }
  /// Whether a variable or flag holds it as JSON5 rather than as bare text.
  var isJSON5: Bool { get }
  /// Its values in a few words; nil if ``text`` says it.
  var values: String? { get }
  /// Its default as one writes it in JSON5; nil if it has no fixed one.
  var defaultText: String? { get }
  /// The rows of the object that it is, or of each object of the list.
  var members: [any SettingRow] { get }
  /// What `content` is as one writes it in JSON5; nil if the setting refuses it.
  func canonical(_ content: RawSetting.Content) -> String?
}

extension SettingRow {
  /// The environment variable that holds it.
  var variable: String { variableName(of: path) }

  /// Its members and theirs, each with its path from here, in the order of the documents.
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

  func canonical(_ content: RawSetting.Content) -> String? { (try? type.parse(content)).map(type.write) }
}

/// A setting as it was written, not yet understood.
package struct RawSetting: Sendable {
  package enum Content: Sendable {
    /// From the file, or from JSON5 in a variable or flag.
    case json(JSON5Value)
    /// From a variable or flag, where a number and a string look alike.
    case text(String)
    /// From a variable that was taken out of the environment.
    case secret(SecretBytes)
  }

  let content: Content
  let source: SettingSource
}

/// Where a setting was written.
public enum SettingSource: Sendable, Equatable, CustomStringConvertible {
  /// The configuration file of this path.
  case file(String)
  /// The environment variable of this name.
  case environment(String)
  /// The command-line flag of this name, with its dashes.
  case flag(String)

  /// `file config.json5`, `SERVER_PORT` or `--port`. A key that was pasted in place of the file's path is not shown.
  public var description: String {
    switch self {
    case .file(let path): looksLikeKey(path) ? "file (\(path.utf8.count) bytes)" : "file \(path)"
    case .environment(let name), .flag(let name): name
    }
  }
}

/// The environment variable of a path: `server.tls.certificateFile` is `SERVER_TLS_CERTIFICATE_FILE`.
///
/// A word begins at a capital after a small letter. A run of capitals is one word. If a small letter follows the run,
/// its last capital begins the next word: `maxTTL` is `MAX_TTL`, and `clientCAFile` is `CLIENT_CA_FILE`.
func variableName(of path: String) -> String {
  var name = ""
  var previous: Character = "."
  var rest = path[...]
  while let character = rest.popFirst() {
    let endsRun = previous.isUppercase && rest.first?.isLowercase == true
    if character.isUppercase && (previous.isLowercase || endsRun) { name.append("_") }
    name.append(character == "." ? "_" : character.uppercased())
    previous = character
  }
  return name
}

/// Which settings there are, and in which sections.
struct SettingsSchema: Sendable {
  let settings: [String: any SettingRow]
  /// The paths of the objects that hold settings; the whole file's is empty.
  let sections: Set<String>

  init(_ known: [any SettingRow]) {
    settings = Dictionary(known.map { ($0.path, $0) }) { first, _ in first }
    var sections: Set<String> = [""]
    for setting in known {
      var components = setting.path.split(separator: ".")
      while components.popLast() != nil { sections.insert(components.joined(separator: ".")) }
    }
    self.sections = sections
  }

  /// Whether there is a setting of this path. An object without rows has members of any name.
  func knows(_ path: String) -> Bool { settings.isEmpty || settings[path] != nil }

  /// The sections that have a variable of their own. The outermost have none: other
  /// programs have variables called `TOKEN` and `SERVER`.
  var variableSections: [String] {
    sections.filter { $0.contains(".") }.sorted()
  }

  /// The names that may stand in the object at `section`.
  func members(of section: String) -> [String] {
    let prefix = section.isEmpty ? "" : section + "."
    let within = (Array(settings.keys) + sections).filter { $0.hasPrefix(prefix) && $0.count > prefix.count }
    return Set(within.map { String($0.dropFirst(prefix.count).prefix { $0 != "." }) }).sorted()
  }

  /// What to write instead of an unknown `name` in `section`.
  ///
  /// A sibling if one is near, else a setting of that very name elsewhere, else the siblings.
  func remedy(unknown name: String, in section: String) -> String {
    let siblings = members(of: section)
    let prefix = section.isEmpty ? "" : section + "."
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

  /// What to write instead of an unknown member `name` of the object at `path`.
  func remedy(unknown name: String, inObjectAt path: String) -> String {
    let names = settings.keys.sorted()
    return "the nearest is \(path).\(nearest(to: name, among: names) ?? ""), of \(names.joined(separator: ", "))"
  }

  /// The known variable that is nearest to `name`.
  func nearestVariable(to name: String) -> String? {
    nearest(to: name, among: settings.keys.sorted().map(variableName(of:)))
  }
}

/// The variables that Kubernetes sets for each service, as Docker links once did.
///
/// A service called `server` gives every pod of its namespace `SERVER_PORT=tcp://10.0.0.1:8080`.
enum ServiceLink {
  /// Whether such a variable looks like `name`, whatever its value.
  static func isName(_ name: String) -> Bool {
    if name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
      return true
    }
    let parts = name.split(separator: "_")
    guard let protocolIndex = parts.lastIndex(where: { ["TCP", "UDP", "SCTP"].contains($0) }), protocolIndex >= 2
    else { return false }
    return parts[protocolIndex - 2] == "PORT" && UInt16(parts[protocolIndex - 1]) != nil
  }

  /// Whether `value` is what such a variable holds, an address that is not one of our settings' values.
  static func isValue(_ value: String) -> Bool {
    ["tcp://", "udp://", "sctp://"].contains { value.hasPrefix($0) }
  }
}

/// How many letters must be changed, added, dropped or swapped with their neighbour to make `a` of `b`.
///
/// The optimal string alignment distance, in which a transposition, the commonest slip, counts once.
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

/// Which of `candidates` is nearest to `name`, letter case aside; the first of equals.
///
/// Names of any length come from a file, so only their first 64 bytes count.
func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
  let name = String(decoding: name.lowercased().utf8.prefix(64), as: UTF8.self)
  return candidates.min { editDistance(name, $0.lowercased()) < editDistance(name, $1.lowercased()) }
}
