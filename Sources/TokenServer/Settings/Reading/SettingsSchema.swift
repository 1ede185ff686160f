/// Which settings there are, and in which sections.
struct SettingsSchema: Sendable {
  let settings: [String: KnownSetting]
  /// The paths of the objects that hold settings; the whole file's is empty.
  let sections: Set<String>

  init(_ known: [KnownSetting]) {
    settings = Dictionary(known.map { ($0.path, $0) }) { first, _ in first }
    var sections: Set<String> = [""]
    for setting in known {
      var components = setting.path.split(separator: ".")
      while components.popLast() != nil { sections.insert(components.joined(separator: ".")) }
    }
    self.sections = sections
  }

  /// The sections that have a variable of their own. The outermost have none: `TOKEN` and `SERVER` are anybody's.
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

  /// The known variable that is nearest to `name`.
  func nearestVariable(to name: String) -> String? {
    nearest(to: name, among: settings.keys.sorted().map(variableName(of:)))
  }
}
