/// A reader of typed values. It collects errors, each with the path from the root. It reads all settings, or the
/// members of one object within a setting, such as `access.clients[1]`.
///
/// swift-configuration (decisions, 3) takes the default for a value that it cannot convert, or throws at the first wrong
/// one without its source. Its providers cannot list their keys, so it finds no unknown key and reads no list of objects.
struct SettingsReader {
  private let layers: SettingsLayers
  private(set) var errors: [SettingsError]
  /// Whether an invalid value counts as the default, without an error. So a section has what its other settings say.
  private let isLenient: Bool

  init(_ layers: SettingsLayers, isLenient: Bool = false) {
    self.layers = layers
    self.isLenient = isLenient
    errors = isLenient ? [] : layers.errors
  }

  /// The written names of an object that allows members of any name, sorted.
  var names: [String] { layers.values.keys.sorted() }

  /// Returns whether a setting, or anything within a section, was written.
  func isSet(_ path: String) -> Bool {
    assert(layers.schema.knows(path) || layers.schema.sections.contains(path), "\(path) is no setting")
    return layers.values[path] != nil || layers.sections[path] != nil
  }

  func isInvalid(_ path: String) -> Bool { errors.contains { $0.path == path && $0.source != nil } }
  func source(of path: String) -> SettingSource? { layers.values[path]?.source }

  /// Returns whether the section was written as an empty object; nil if it was not written as an object.
  func isEmptyObject(_ path: String) -> Bool? { layers.objects[path] }

  /// Returns the value or the default. Nil without either, or if the value is invalid, which records an error.
  mutating func read<Value>(_ setting: Setting<Value>) -> Value? {
    // A file could not set a row that is missing from the list, and no document would describe the row.
    assert(layers.schema.knows(setting.path), "\(setting.path) is not among the known settings")
    guard let raw = layers.values[setting.path] else { return setting.fallback }
    do throws(InvalidValue) { return try setting.type.parse(raw.content, raw.source.folder) } catch {
      reject(setting.path, setting.isSecret ? "has an invalid value" : error.problem, remedy: error.remedy)
      return isLenient ? setting.fallback : nil
    }
  }

  /// Returns the elements of a list, or of one value without brackets. Invalid elements are nil and recorded.
  mutating func readElements<Element>(_ setting: Setting<SettingElements<Element>>) -> [Element?]? {
    readPlaced(setting)?.map(\.element)
  }

  mutating func readList<Element>(_ setting: Setting<SettingElements<Element>>) -> [Element]? {
    readElements(setting)?.whole()
  }

  /// Returns the result of `body` for the members of an object, or nil if the object is missing or invalid.
  mutating func readObject<Value>(
    _ setting: Setting<SettingObject>, _ body: (inout SettingsReader) -> Value?
  ) -> Value? {
    read(setting).flatMap { readMembers($0, setting.members, at: setting.path, body) }
  }

  /// Returns the result of `body` for every object of a list, or for one object without brackets.
  mutating func readObjects<Value>(
    _ setting: Setting<SettingElements<SettingObject>>, _ body: (inout SettingsReader) -> Value?
  ) -> [Value?]? {
    readPlaced(setting)?.map { path, object in object.flatMap { readMembers($0, setting.members, at: path, body) } }
  }

  /// Records an error of `path` with its source. An empty path means the object itself.
  mutating func reject(_ path: String, _ problem: String, remedy: String?) {
    note(SettingsError(layers.path(path), source: layers.source(of: path), problem: problem, remedy: remedy))
  }

  mutating func reject(variable: String, _ problem: String, remedy: String?) {
    note(SettingsError("", source: .environment(variable), problem: problem, remedy: remedy))
  }

  private mutating func note(_ error: SettingsError) { if !isLenient { errors.append(error) } }
  mutating func require(_ path: String, remedy: String) { if !isSet(path) { missing(path, remedy: remedy) } }

  /// Records an error for a missing setting that is required. Only a setting of the root has a variable.
  mutating func missing(_ path: String, remedy: String, alternative: String = "") {
    let variable = layers.scope.isEmpty ? ", here or as \(variableName(of: path))" : ""
    missing(path, "is not set", remedy: remedy + variable + alternative)
  }

  /// Records an error for something missing. If the file could not be read, it may be in there, so there is no error.
  mutating func missing(_ path: String, _ problem: String, remedy: String) {
    guard layers.isComplete else { return }
    reject(path, problem, remedy: remedy)
  }

  private mutating func readPlaced<Element>(
    _ setting: Setting<SettingElements<Element>>
  ) -> [(path: String, element: Element?)]? {
    guard let list = read(setting) else { return nil }
    return list.results.enumerated().map { index, result in
      let path = list.hasBrackets ? "\(setting.path)[\(index)]" : setting.path
      do throws(InvalidValue) { return (path, try result.get()) } catch {
        reject(path, error.problem, remedy: error.remedy)
        return (path, nil)
      }
    }
  }

  private mutating func readMembers<Value>(
    _ object: SettingObject, _ members: [any SettingRow], at path: String, _ body: (inout SettingsReader) -> Value?
  ) -> Value? {
    guard let source = layers.source(of: path) else { return nil }
    let own = SettingsLayers(object, at: layers.path(path), source: source, members: members)
    var reader = SettingsReader(own, isLenient: isLenient)
    let result = body(&reader)
    errors += reader.errors
    return result
  }
}

extension Array {
  func whole<Wrapped>() -> [Wrapped]? where Element == Wrapped? {
    let present = compactMap { $0 }
    return present.count == count ? present : nil
  }
}
