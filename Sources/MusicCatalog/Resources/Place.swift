import Bytes
import JSON

/// The context in which resources are found and written: storefront, language and user.
struct Place: Sendable {
  let catalog: Catalog
  let storefront: Storefront
  /// The language tag of the response.
  let language: String
  /// The language tag in the request, which the response's `next` keeps.
  let requestedLanguage: String?
  /// The beginning of the emulator's absolute URLs, such as `http://localhost:8081`.
  let base: String
  /// The library of the user; nil for a request without a valid music user token.
  let library: LibraryContents?
  /// Whether the response leaves out explicit content (`restrict=explicit`).
  let isRestricted: Bool

  // MARK: Paths

  /// Returns the path of a type.
  func path(_ type: ResourceType) -> String {
    type.path.tail.map { "\(type.path.head)\(storefront.id)\($0)" } ?? type.path.head
  }

  /// Returns the path of a resource.
  func href(_ key: ResourceKey) -> String {
    "\(catalog.types[key.type].map(path) ?? "")/\(key.id)"
  }

  /// Returns the path of the next page. It has the offset, and repeats neither `limit` nor `extend`.
  func next(_ path: String, _ paging: Paging, count: Int) -> JSONValue? {
    guard let offset = paging.nextOffset(count: count) else { return nil }
    let language = requestedLanguage.map { "l=\(FormEncoding.encodeQueryValue($0))&" } ?? ""
    return .text("\(path)?\(language)offset=\(offset)")
  }

  // MARK: Resources

  /// Returns the resource with a key; nil if it does not exist in the storefront or the library.
  func find(_ key: ResourceKey) -> Resource? {
    guard catalog.types[key.type]?.isOfLibrary != true else { return library?.find(key) }
    return catalog.find(key).flatMap { isAvailable($0) ? $0 : nil }
  }

  /// Returns all resources of a type.
  func all(_ type: ResourceType) -> [Resource] {
    type.isOfLibrary ? library?.all(type.name) ?? [] : catalog.all(type.name).filter(isAvailable)
  }

  private func isAvailable(_ resource: Resource) -> Bool {
    resource.storefronts?.contains { $0 == storefront.id } ?? true
  }

  /// Returns the resources that the request may see: all, or those without explicit content.
  func permitted(_ resources: [Resource]) -> [Resource] {
    isRestricted ? resources.filter { $0["contentRating"] != "explicit" } : resources
  }

  /// Returns the resource of the catalog that belongs to a resource of a library.
  func original(_ resource: Resource) -> Resource? {
    resource.related["catalog"]?.first.flatMap(find)
  }

  // MARK: Relationships

  /// Returns the resources of a relationship or view: those that the resource lists, or else those at the relation's
  /// path.
  func related(_ resource: Resource, _ relation: Relation) -> [Resource] {
    if relation.isStation {
      let listed = resource.related[relation.name]?.compactMap(find) ?? []
      return listed.isEmpty ? [find(ResourceKey("stations", "ra.\(resource.key.id)"))].compactMap(\.self) : listed
    }
    if let listed = resource.related[relation.name] { return permitted(listed.compactMap(find)) }
    guard !relation.path.isEmpty else { return [] }
    var found = relation.path.reduce([resource]) { found, step in found.flatMap { follow(step, from: $0) } }
    var seen: Set<ResourceKey> = [resource.key]
    found = found.filter { found in
      seen.insert(found.key).inserted
        && relation.conditions.allSatisfy { found[$0.name] == $0.value }
    }
    if relation.isNewestFirst { found.sort { date($0) > date($1) } }
    return permitted(Array(found.prefix(relation.first)))
  }

  private func date(_ resource: Resource) -> ByteString { resource["releaseDate"]?.string ?? "" }

  private func follow(_ step: Relation.Step, from resource: Resource) -> [Resource] {
    switch step {
    case .relation(let name):
      return catalog.types[resource.key.type]?.relationship(name).map { related(resource, $0) } ?? []
    case .inverse(let types, let name):
      let keys = library?.listing(resource.key, types, name) ?? []
      return (keys + catalog.listing(resource.key, types, name)).compactMap(find)
    case .library: return library?.counterpart(resource.key).map { [$0] } ?? []
    case .genre:
      guard let type = catalog.types[resource.key.type], let genre = genre(resource) else { return [] }
      return all(type).filter { self.genre($0) == genre }
    }
  }

  private func genre(_ resource: Resource) -> ResourceKey? { resource.related["genres"]?.first }

  /// Returns whether a resource belongs to a genre.
  func isOf(_ genre: ResourceKey, _ resource: Resource) -> Bool {
    guard let relation = catalog.types[resource.key.type]?.relationship("genres") else { return false }
    return related(resource, relation).contains { $0.key == genre }
  }
}

/// A territory in which Apple Music is available.
struct Storefront: Sendable {
  let resource: Resource

  /// The two-letter code.
  var id: String { resource.key.id.text }
  /// The supported languages.
  var languageTags: [String] { resource["supportedLanguageTags"]?.list.map(\.text) ?? [] }
  var defaultLanguageTag: String { resource["defaultLanguageTag"]?.string?.text ?? "en-GB" }

  /// Returns the language of a response: that of the request if it is supported, otherwise a related one or the
  /// default.
  ///
  /// Throws for an invalid language tag. Apple's response to a valid but unsupported tag is unknown.
  func language(for tag: String?) throws(AppleError) -> String {
    guard let tag else { return defaultLanguageTag }
    guard Self.isPlausible(tag) else { throw .invalidParameter("l", "Invalid language tag '\(tag.prefix(64))'") }
    return supported(tag) ?? defaultLanguageTag
  }

  /// Returns the supported tag that equals `tag` or has the same primary language, or nil.
  func supported(_ tag: String) -> String? {
    let wanted = tag.lowercased()
    if let same = languageTags.first(where: { $0.lowercased() == wanted }) { return same }
    return languageTags.first { Self.primary($0.lowercased()) == Self.primary(wanted) }
  }

  /// Returns the primary subtag of a language tag.
  static func primary(_ tag: String) -> Substring { tag.prefix { $0 != "-" } }

  /// Returns whether a tag has two or three letters, then subtags of one to eight characters (RFC 5646 §2.1). Longer
  /// primary languages do not exist.
  static func isPlausible(_ tag: String) -> Bool {
    let subtags = tag.split(separator: "-", omittingEmptySubsequences: false)
    guard tag.utf8.count <= 35, let primary = subtags.first, (2...3).contains(primary.utf8.count) else { return false }
    return primary.utf8.allSatisfy { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7A }
      && subtags.dropFirst().allSatisfy { subtag in
        (1...8).contains(subtag.utf8.count) && subtag.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
      }
  }
}
