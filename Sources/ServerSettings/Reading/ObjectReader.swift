/// Gives typed members of one object within a setting that holds objects, and collects what is wrong with them: each
/// error has the member's own path, `access.clients[1].rateLimit.burst`.
struct ObjectReader {
  /// Where the object stands.
  let path: String
  private let members: [String: JSON5Value]
  private let source: SettingSource?
  private var known: Set<String> = []
  private(set) var errors: [SettingsError] = []

  /// Nil, with an error, if `value` is no object.
  private init?(
    _ value: JSON5Value, at path: String, source: SettingSource?, remedy: String, errors: inout [SettingsError]
  ) {
    guard case .object(let members) = value else {
      let error = InvalidValue.wrongType(value, remedy: remedy)
      errors.append(SettingsError(path, source: source, problem: error.problem, remedy: error.remedy))
      return nil
    }
    (self.path, self.members, self.source) = (path, members, source)
  }

  /// Whether the member was written.
  func has(_ name: String) -> Bool { members[name] != nil }

  /// The path of a member.
  func path(of name: String) -> String { "\(path).\(shown(name))" }

  /// The member's value, else `fallback`; nil if it has neither or is invalid, which is then noted.
  mutating func read<Value>(_ name: String, _ type: SettingType<Value>, default fallback: Value? = nil) -> Value? {
    known.insert(name)
    guard let value = members[name] else { return fallback }
    return parse(value, type, at: path(of: name))
  }

  /// The elements of a list, or the one value without brackets; nil if the member is absent or an element is invalid.
  mutating func readList<Value>(_ name: String, of type: SettingType<Value>, atMost most: Int) -> [Value]? {
    readElements(name, of: type, atMost: most)?.whole()
  }

  /// The same with nil for each that is invalid.
  mutating func readElements<Value>(_ name: String, of type: SettingType<Value>, atMost most: Int) -> [Value?]? {
    known.insert(name)
    guard let value = members[name] else { return nil }
    guard case .array(let elements) = value else { return [parse(value, type, at: path(of: name))] }
    guard elements.count <= most else {
      reject(name, problem: "has \(elements.count) elements", remedy: "write \(most) at most")
      return nil
    }
    return elements.indices.map { parse(elements[$0], type, at: "\(path(of: name))[\($0)]") }
  }

  /// What `body` makes of the object of that name; nil if the member is absent or is not an object.
  mutating func object<Value>(_ name: String, remedy: String, _ body: (inout ObjectReader) -> Value?) -> Value? {
    known.insert(name)
    return members[name].flatMap { object($0, at: path(of: name), remedy: remedy, body) }
  }

  /// The same for one object or a list of them; nil if any is invalid.
  mutating func objects<Value>(
    _ name: String, remedy: String, atMost most: Int, _ body: (inout ObjectReader) -> Value?
  ) -> [Value]? {
    known.insert(name)
    guard let value = members[name] else { return nil }
    guard case .array(let elements) = value else {
      return object(value, at: path(of: name), remedy: remedy, body).map { [$0] }
    }
    guard elements.count <= most else {
      reject(name, problem: "has \(elements.count) elements", remedy: "write \(most) at most")
      return nil
    }
    return elements.indices.map { object(elements[$0], at: "\(path(of: name))[\($0)]", remedy: remedy, body) }.whole()
  }

  /// The names of all members, sorted; all are known from now on.
  mutating func takeNames() -> [String] {
    known.formUnion(members.keys)
    return members.keys.sorted()
  }

  /// Notes an error of the member `name`; of the object itself if that is empty.
  mutating func reject(_ name: String, problem: String, remedy: String) {
    let place = name.isEmpty ? path : path(of: name)
    errors.append(SettingsError(place, source: source, problem: problem, remedy: remedy))
  }

  /// Reports the members that no call has read.
  private mutating func finish() {
    for name in members.keys.sorted() where !known.contains(name) {
      let nearest = nearest(to: name, among: known.sorted()).map { "the nearest is \(path(of: $0))" }
      let all = known.sorted().joined(separator: ", ")
      errors.append(
        SettingsError(
          path, source: source, problem: "there is no field \(quoted(name))",
          remedy: "\(nearest ?? "leave it out"), of \(all)"))
    }
  }

  private mutating func parse<Value>(_ value: JSON5Value, _ type: SettingType<Value>, at path: String) -> Value? {
    do throws(InvalidValue) {
      return try type.parse(.json(value))
    } catch {
      errors.append(SettingsError(path, source: source, problem: error.problem, remedy: error.remedy))
      return nil
    }
  }

  private mutating func object<Value>(
    _ value: JSON5Value, at path: String, remedy: String, _ body: (inout ObjectReader) -> Value?
  ) -> Value? {
    Self.read(value, at: path, source: source, remedy: remedy, errors: &errors, body)
  }

  /// What `body` makes of an object; nil, with every error in `errors`, if anything is wrong with it.
  static func read<Value>(
    _ value: JSON5Value, at path: String, source: SettingSource?, remedy: String, errors: inout [SettingsError],
    _ body: (inout ObjectReader) -> Value?
  ) -> Value? {
    guard var reader = ObjectReader(value, at: path, source: source, remedy: remedy, errors: &errors) else {
      return nil
    }
    let result = body(&reader)
    reader.finish()
    errors += reader.errors
    return reader.errors.isEmpty ? result : nil
  }
}

extension Array {
  /// The elements, if none of them is nil.
  func whole<Wrapped>() -> [Wrapped]? where Element == Wrapped? {
    let present = compactMap { $0 }
    return present.count == count ? present : nil
  }
}
