import Bytes
import JSON

struct ResourceKey: Sendable, Hashable {
  let type: ByteString
  let id: ByteString

  init(_ type: ByteString, _ id: ByteString) {
    (self.type, self.id) = (type, id)
  }
}

/// A resource in Apple's form, independent of language, storefront and user.
///
/// Its `meta` has what Apple's form cannot say: `storefronts` that offer it, `translations` of attributes by language,
/// values of `filters` that no attribute has, and identifiers of `equivalents` in other storefronts.
struct Resource: Sendable {
  let type: ResourceType
  let key: ResourceKey
  var attributes: [JSONValue.Member]
  /// The keys under the names of relationships and views.
  var related: [ByteString: [ResourceKey]] = [:]
  /// The number of further tracks that the catalog chooses.
  var sample = 0
  let storefronts: [ByteString]?
  private let meta: JSONValue

  init(_ type: ResourceType, _ id: ByteString, _ attributes: [JSONValue.Member], meta: JSONValue = .null) {
    (self.type, self.meta) = (type, meta)
    key = ResourceKey(type.name, id)
    self.attributes = attributes.sorted { $0.name < $1.name }
    storefronts = meta["storefronts"]?.strings
  }

  var equivalents: [ByteString] { meta["equivalents"]?.strings ?? [] }
  var filters: JSONValue? { meta["filters"] }
  var translations: JSONValue? { meta["translations"] }

  subscript(name: ByteString) -> JSONValue? { attributes.first { $0.name == name }?.value }

  func has(_ value: ByteString, of filter: ByteString) -> Bool {
    filters?[filter.text]?.strings.contains(value) ?? false
  }

  /// The attributes in a language, which is a primary subtag (RFC 5646 §2.2.1).
  func attributes(in language: String) -> [JSONValue.Member] {
    guard let translation = translations?[language] else { return attributes }
    return attributes.map { member in translation.members.first { $0.name == member.name } ?? member }
  }
}

/// Resources, found by type, by key, and by what they list.
struct ResourceIndex: Sendable {
  private var lists: [ByteString: [Resource]] = [:]
  private var byKey: [ResourceKey: Resource] = [:]
  /// The resources that list a resource, and the relationship or view in which they do.
  private var listings: [ResourceKey: [(key: ResourceKey, relation: ByteString)]] = [:]

  init(_ resources: some Sequence<Resource>) {
    for resource in resources { add(resource) }
  }

  mutating func add(_ resource: Resource) {
    lists[resource.key.type, default: []].append(resource)
    byKey[resource.key] = resource
    for (relation, keys) in resource.related {
      for key in keys { listings[key, default: []].append((resource.key, relation)) }
    }
  }

  mutating func replace(_ key: ResourceKey, with resource: Resource?) {
    lists[key.type] = all(key.type).compactMap { $0.key == key ? resource : $0 }
    self = ResourceIndex(lists.keys.sorted().flatMap(all))
  }

  var count: Int { byKey.count }

  func all(_ type: ByteString) -> [Resource] { lists[type] ?? [] }

  func find(_ key: ResourceKey) -> Resource? { byKey[key] }

  /// The resources of these types that list a resource in a relationship, in the order of their addition.
  func listing(_ key: ResourceKey, _ types: [ByteString], _ relation: ByteString) -> [ResourceKey] {
    (listings[key] ?? []).filter { $0.relation == relation && types.contains($0.key.type) }.map(\.key)
  }
}
