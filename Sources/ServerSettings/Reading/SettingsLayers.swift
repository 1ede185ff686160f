import Bytes
import Cryptography
import DeveloperToken
import Glibc
package import JSON

/// The written settings in layers: the file, then the environment, then the flags. Or the members of one object within
/// a setting, all from one source.
struct SettingsLayers {
  let schema: SettingsSchema
  /// The path of the object. Empty for all settings.
  let scope: String
  private var source: SettingSource?
  private(set) var values: [String: RawSetting] = [:]
  /// The written sections, with the first source of each. An empty object counts too.
  private(set) var sections: [String: SettingSource] = [:]
  /// The sections that were written as whole objects, and whether the object is empty. A section is not included if
  /// only single settings of it were written, with their own variables or flags.
  private(set) var objects: [String: Bool] = [:]
  private(set) var errors: [SettingsError] = []
  private(set) var warnings: [String] = []
  /// Whether every layer could be read. Otherwise, a missing setting may only be unread.
  private(set) var isComplete = true
  /// How many unknown names may still get a suggestion, which is slow: a file with many is a different file.
  private var suggestions = 20

  init(_ input: SettingsInput, schema: SettingsSchema) {
    self.schema = schema
    scope = ""
    if let path = input.configurationFile { addFile(path, within: input.readingTime) }
    addEnvironment(input.environment)
    if let key = input.environmentKey {
      let path = Settings.MusicKit.key.path
      set(path, RawSetting(content: .secret(key), source: .environment(variableName(of: path))))
    }
    for flag in input.flags { addFlag(flag) }
    addPlatformPort(input)
  }

  /// The variable in which Cloud Run, Heroku and others say on which port they expect a program.
  static let platformPort = "PORT"

  private mutating func addPlatformPort(_ input: SettingsInput) {
    let written = [Settings.Server.port.path, Settings.Server.unixSocket.path]
    guard let text = input.environment[Self.platformPort], input.host.sockets.public.isEmpty, isComplete,
      !written.contains(where: { values[$0] != nil })
    else { return }
    set(Settings.Server.port.path, RawSetting(content: .text(text), source: .environment(Self.platformPort)))
  }

  init(_ object: SettingObject, at scope: String, source: SettingSource, members: [any SettingRow]) {
    schema = SettingsSchema(members)
    (self.scope, self.source) = (scope, source)
    for member in object.sorted(by: { $0.name < $1.name }) {
      let name = member.name.text
      if schema.knows(name) {
        values[name] = RawSetting(content: .json(member.value), source: source)
      } else {
        let remedy = mayBeSuggested() ? schema.remedy(unknown: name, inObjectAt: scope) : nil
        reject(scope, source, "there is no field \(quoted(name))", remedy: remedy)
      }
    }
  }

  /// Returns the path of a setting from the root. The member names of some objects come from the file.
  func path(_ name: String) -> String { scope.isEmpty ? name : name.isEmpty ? scope : "\(scope).\(shown(name))" }

  func source(of name: String) -> SettingSource? {
    let setting = String(name.prefix { $0 != "[" })
    return values[setting]?.source ?? sections[setting] ?? source
  }

  private mutating func addFile(_ path: String, within time: ReadingTime) {
    let source = SettingSource.file(path)
    guard !path.hasPrefix("~") else {
      reject("", source, InvalidValue.unexpandedHome.problem, remedy: InvalidValue.unexpandedHome.remedy)
      isComplete = false
      return
    }
    do throws(SmallFile.Failure) {
      let descriptor = try SmallFile.open(path)
      defer { close(descriptor) }
      var bytes = try SmallFile.read(descriptor, atMost: 1 << 20, within: time)
      // The bytes may contain the key. The strings that the parser creates from them cannot be erased.
      defer { bytes.wipe() }
      do throws(JSON5Failure) {
        add(try JSON5Parser.parse(bytes), at: "", source: source)
        if values[Settings.MusicKit.key.path] != nil { checkAccess(descriptor, source) }
      } catch {
        reject("", source, "\(error)", remedy: "write valid JSON5")
        isComplete = false
      }
    } catch {
      let remedy = "name a readable file of at most 1MB with --config or MUSICKIT_CONFIG"
      let place = SettingSource.file(looksLikeKey(path) ? path : Printable.absolute(path))
      reject("", place, "\(error)", remedy: remedy)
      isComplete = false
    }
  }

  /// Checks the file's permissions like those of a key file, because it contains the key.
  private mutating func checkAccess(_ descriptor: Int32, _ source: SettingSource) {
    guard let access = KeyFileAccess(descriptor: descriptor) else { return }
    if let mode = access.modeWritableByOthers {
      let problem = "the file is writable by users other than its owner (mode \(FilePermissions.octal(mode)))"
      let remedy = "run chmod 600 on it, because they could write their own key there"
      reject(Settings.MusicKit.key.path, source, problem, remedy: remedy)
    } else {
      warnings += access.findings("The configuration file, which holds the key,").map(\.description)
    }
  }

  private mutating func add(_ value: JSONValue, at path: String, source: SettingSource) {
    guard schema.sections.contains(path) else { return set(path, RawSetting(content: .json(value), source: source)) }
    note(section: path, source: source)
    guard case .object(let members) = value else {
      let problem = "\(path.isEmpty ? "contains" : "is") \(value.kind)"
      let names = schema.members(of: path).joined(separator: ", ")
      return reject(path, source, problem, remedy: "write an object with any of \(names)")
    }
    objects[path] = members.isEmpty
    for member in members.sorted(by: { $0.name < $1.name }) {
      let name = member.name.text
      let memberPath = path.isEmpty ? name : "\(path).\(name)"
      if !name.contains("."), schema.settings[memberPath] != nil || schema.sections.contains(memberPath) {
        add(member.value, at: memberPath, source: source)
      } else {
        let remedy = mayBeSuggested() ? schema.remedy(unknown: name, in: path) : nil
        reject(path, source, "there is no setting \(quoted(name))", remedy: remedy)
      }
    }
  }

  private mutating func mayBeSuggested() -> Bool {
    guard suggestions > 0 else { return false }
    suggestions -= 1
    return true
  }

  private mutating func set(_ path: String, _ raw: RawSetting) {
    if case .flag = raw.source, let setting = schema.settings[path], setting.isSecret {
      return reject(
        path, raw.source, "every user of the machine can see a command line",
        remedy: "give it in a file or as \(setting.variable)")
    }
    values[path] = raw
    for section in SettingsSchema.sections(above: path) { note(section: section, source: raw.source) }
  }

  private mutating func note(section: String, source: SettingSource) {
    if sections[section] == nil { sections[section] = source }
  }

  private mutating func addEnvironment(_ environment: [String: String]) {
    // The variable of a section replaces the section. After that, the variables of settings count.
    for path in schema.variableSections {
      let name = variableName(of: path)
      if let text = environment[name] { addJSON5(text, at: path, source: .environment(name)) }
    }
    for setting in schema.settings.values.sorted(by: { $0.path < $1.path }) {
      guard let text = environment[setting.variable] else { continue }
      let source = SettingSource.environment(setting.variable)
      if ServiceLink.isValue(text) {
        reject(
          setting.path, source, "Kubernetes or Docker sets this variable for a service of that name",
          remedy: "rename the service, or set enableServiceLinks to false in the pod's specification")
      } else {
        add(text, to: setting, source: source)
      }
    }
    warnOfUnknown(environment)
  }

  /// Warns of unknown variables with our prefixes. They are no errors, because they may belong to other software.
  private mutating func warnOfUnknown(_ environment: [String: String]) {
    let prefixes = schema.members(of: "").map { $0.uppercased() + "_" }
    let known = Set(
      schema.settings.values.map(\.variable) + schema.variableSections.map(variableName(of:)) + ["MUSICKIT_CONFIG"])
    for (name, value) in environment.sorted(by: { $0.key < $1.key }) {
      guard prefixes.contains(where: name.hasPrefix), !known.contains(name), !ServiceLink.isName(name),
        !ServiceLink.isValue(value)
      else { continue }
      let candidates = mayBeSuggested() ? schema.settings.keys.sorted().map(variableName(of:)) : []
      let near = nearest(to: name, among: candidates).map { "; the nearest setting is \($0)" } ?? ""
      warnings.append("The environment variable \(quoted(name)) is unknown and has no effect\(near).")
    }
  }

  private mutating func addFlag(_ flag: SettingsInput.Flag) {
    let source = SettingSource.flag(flag.name)
    guard let setting = schema.settings[flag.path] else {
      if !flag.path.isEmpty, schema.sections.contains(flag.path) {
        return addJSON5(flag.value, at: flag.path, source: source)
      }
      let components = flag.path.split(separator: ".")
      let section = components.dropLast().joined(separator: ".")
      let known = schema.sections.contains(section) ? section : ""
      return reject(
        "", source, "there is no setting \(quoted(flag.path))",
        remedy: mayBeSuggested() ? schema.remedy(unknown: components.last.map(String.init) ?? "", in: known) : nil)
    }
    add(flag.value, to: setting, source: source)
  }

  private mutating func add(_ text: String, to setting: any SettingRow, source: SettingSource) {
    if setting.isJSON5 {
      addJSON5(text, at: setting.path, source: source)
    } else {
      set(setting.path, RawSetting(content: .text(text), source: source))
    }
  }

  /// Adds a list or object that a variable or flag has as JSON5. It replaces the values of lower layers at its path.
  private mutating func addJSON5(_ text: String, at path: String, source: SettingSource) {
    do throws(JSON5Failure) {
      let value = try JSON5Parser.parse(text)
      let isElsewhere = { (other: String) in other != path && !other.hasPrefix(path + ".") }
      values = values.filter { isElsewhere($0.key) }
      sections = sections.filter { isElsewhere($0.key) }
      objects = objects.filter { isElsewhere($0.key) }
      add(value, at: path, source: source)
    } catch {
      let example = schema.settings[path]?.example ?? "[\"…\"]"
      let remedy = "write \(schema.sections.contains(path) ? "an object in JSON5" : "JSON5, such as \(example)")"
      reject(path, source, "\(error)", remedy: remedy)
    }
  }

  private mutating func reject(_ path: String, _ source: SettingSource, _ problem: String, remedy: String?) {
    errors.append(SettingsError(path, source: source, problem: problem, remedy: remedy))
  }
}

/// A setting for the operator: its value without secrets, and where it was written.
package struct SettingEntry: Sendable, Equatable {
  package let path: String
  /// The value. Nil if the setting was not written and has no fixed default.
  package let value: JSONValue?
  /// Where it was written. Nil for a default.
  package let source: String?

  fileprivate static let redacted: JSONValue = "(secret)"
}

extension SettingsLayers {
  func entries(of rows: [any SettingRow]) -> [SettingEntry] {
    rows.map { row in
      let raw = values[row.path]
      return SettingEntry(
        path: row.path, value: raw.map { value(of: row, $0.content) } ?? row.defaultText.map(Self.json),
        source: raw.map { "\($0.source)" })
    }
  }

  private func value(of row: any SettingRow, _ content: RawSetting.Content) -> JSONValue {
    guard !row.isSecret else { return SettingEntry.redacted }
    let value = visible(row, content)
    // The arguments of a command may have a secret.
    guard row.path == Settings.MusicKit.Signer.command.path, case .array(let words) = value else { return value }
    return .array(words.prefix(1) + words.dropFirst().map { _ in SettingEntry.redacted })
  }

  private func visible(_ row: any SettingRow, _ content: RawSetting.Content) -> JSONValue {
    switch content {
    case .secret: return SettingEntry.redacted
    case .json(let value): return value.redacted
    case .text(let text):
      // In a variable, numbers and strings look alike. An invalid one has no canonical form, and no effect.
      return Self.json(row.isJSON5 ? text : row.canonical(content) ?? text)
    }
  }

  private static func json(_ text: String) -> JSONValue { ((try? JSON5Parser.parse(text)) ?? .text(text)).redacted }
}

extension JSONValue {
  /// The value without secrets: a digest is cut, because a program could guess a weak API key from it. A URL ends before
  /// its query. A text that may be a key or has credentials is left out.
  fileprivate var redacted: JSONValue {
    switch self {
    case .null, .bool: return self
    case .number(let text):
      if integer != nil { return self }
      return Double(text).flatMap { $0.isFinite ? .number("\($0)") : nil } ?? .text(text)
    case .string(let bytes):
      let text = bytes.text
      if looksLikeKey(text) || Printable.holdsCredentials(text) { return SettingEntry.redacted }
      return .text(text.contains("://") ? String(text.prefix { $0 != "?" }) : text)
    case .array(let elements): return .array(elements.map(\.redacted))
    case .object(let members):
      return .object(
        members.sorted { $0.name < $1.name }.map { member in
          Member(name: member.name, value: (member.name == "sha256" ? member.value.beginning : member.value).redacted)
        })
    }
  }

  /// The first characters of a digest, or of each of several, as `doctor --url` names them.
  private var beginning: JSONValue {
    switch self {
    case .string(let text): .text("\(text.text.prefix(8))…")
    case .array(let elements): .array(elements.map(\.beginning))
    default: .null
    }
  }
}
