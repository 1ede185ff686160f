/// Gives typed values of the settings that were written, and collects what is wrong with them: of all settings, or of the
/// members of one object within a setting, such as `access.clients[1]`. Each error has the path from the root.
///
/// swift-configuration was weighed for this and left. Its readers give a setting's default when what was written cannot
/// be converted, or throw at the first that is missing or wrong, without saying which source that was in. Its providers
/// look up one key of one type at a time and cannot list what they hold, so an unknown key cannot be found, nor a list of
/// objects read. And its JSON provider needs the whole of Foundation.
struct SettingsReader {
  private let layers: SettingsLayers
  private(set) var errors: [SettingsError]

  init(_ layers: SettingsLayers) {
    self.layers = layers
    errors = layers.errors
  }

  /// The names that were written in an object with members of any name, sorted.
  var names: [String] { layers.values.keys.sorted() }

  /// Whether a setting, or anything within a section, was written.
  func isSet(_ path: String) -> Bool {
    layers.values[path] != nil || layers.sections[path] != nil
  }

  /// Whether the section was written as an empty object; nil if it was not written as an object at all.
  func isEmptyObject(_ path: String) -> Bool? {
    layers.objects[path]
  }

  /// The setting's value, else its default; nil if it has neither or is invalid, which is then noted.
  mutating func read<Value>(_ setting: Setting<Value>) -> Value? {
    // A row outside of the list would be an unknown name in the file, and no document would have it.
    assert(layers.schema.knows(setting.path), "\(setting.path) is not among the known settings")
    guard let raw = layers.values[setting.path] else { return setting.fallback }
    do throws(InvalidValue) {
      return try setting.type.parse(raw.content)
    } catch {
      reject(setting.path, problem: setting.isSecret ? "is not what it should be" : error.problem, remedy: error.remedy)
      return nil
    }
  }

  /// The elements of a list, or the one value without brackets: nil for each that is invalid, which is then noted.
  mutating func readElements<Element>(_ setting: Setting<SettingElements<Element>>) -> [Element?]? {
    readPlaced(setting)?.map(\.element)
  }

  /// The same; nil if any element is invalid.
  mutating func readList<Element>(_ setting: Setting<SettingElements<Element>>) -> [Element]? {
    readElements(setting)?.whole()
  }

  /// What `body` reads of the members of an object; nil if it was not written, or is no object.
  mutating func readObject<Value>(
    _ setting: Setting<SettingObject>, _ body: (inout SettingsReader) -> Value?
  ) -> Value? {
    read(setting).flatMap { readMembers($0, setting.members, at: setting.path, body) }
  }

  /// The same for each object of a list, or for the one without brackets.
  mutating func readObjects<Value>(
    _ setting: Setting<SettingElements<SettingObject>>, _ body: (inout SettingsReader) -> Value?
  ) -> [Value?]? {
    readPlaced(setting)?.map { path, object in
      object.flatMap { readMembers($0, setting.members, at: path, body) }
    }
  }

  /// Notes an error of `path`, with the place where it was written: an empty path is that of the object itself.
  mutating func reject(_ path: String, problem: String, remedy: String?) {
    errors.append(
      SettingsError(layers.path(path), source: layers.source(of: path), problem: problem, remedy: remedy))
  }

  /// Notes that a setting is missing if it was not written.
  mutating func require(_ path: String, remedy: String) {
    if !isSet(path) { missing(path, remedy: remedy) }
  }

  /// Notes that a setting that must be written is missing. Only a setting of the root has a variable.
  mutating func missing(_ path: String, remedy: String) {
    let variable = layers.scope.isEmpty ? ", here or as \(variableName(of: path))" : ""
    missing(path, problem: "is not set", remedy: remedy + variable)
  }

  /// Notes that something must be written, unless the file could not be read: it may well be there.
  mutating func missing(_ path: String, problem: String, remedy: String) {
    guard layers.isComplete else { return }
    reject(path, problem: problem, remedy: remedy)
  }

  /// The elements of a list, each with its path.
  private mutating func readPlaced<Element>(
    _ setting: Setting<SettingElements<Element>>
  ) -> [(path: String, element: Element?)]? {
    guard let list = read(setting) else { return nil }
    return list.results.enumerated().map { index, result in
      let path = list.hasBrackets ? "\(setting.path)[\(index)]" : setting.path
      do throws(InvalidValue) {
        return (path, try result.get())
      } catch {
        reject(path, problem: error.problem, remedy: error.remedy)
        return (path, nil)
      }
    }
  }

  private mutating func readMembers<Value>(
    _ object: SettingObject, _ members: [any SettingRow], at path: String, _ body: (inout SettingsReader) -> Value?
  ) -> Value? {
    guard let source = layers.source(of: path) else { return nil }
    var reader = SettingsReader(SettingsLayers(object, at: layers.path(path), source: source, members: members))
    let result = body(&reader)
    errors += reader.errors
    return result
  }
}

extension Array {
  /// The elements, if none of them is nil.
  func whole<Wrapped>() -> [Wrapped]? where Element == Wrapped? {
    let present = compactMap { $0 }
    return present.count == count ? present : nil
  }
}
