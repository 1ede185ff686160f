/// Everything that can be asked for, made once and never changed.
struct Catalog: Sendable {
  /// The resources of each type, the most popular first.
  private let lists: [ResourceType: [Item]]
  private let byKey: [ResourceKey: Item]

  init(_ items: [Item]) {
    let items = items.map { item in
      var item = item
      item.searchWords = (Matches.words(item.name.standard), Matches.words(item.alsoFoundBy))
      return item
    }
    lists = Dictionary(grouping: items, by: \.key.type)
    byKey = Dictionary(items.map { ($0.key, $0) }) { first, _ in first }
  }

  /// The built-in catalog.
  static let builtIn = CatalogBuilder().catalog()

  /// The resource with a key, if it is to be had in the storefront.
  func item(_ key: ResourceKey, in storefront: String) -> Item? {
    guard let item = byKey[key], item.isAvailable(in: storefront) else { return nil }
    return item
  }

  /// All resources of a type that are to be had in the storefront.
  func all(_ type: ResourceType, in storefront: String) -> [Item] {
    (lists[type] ?? []).filter { $0.isAvailable(in: storefront) }
  }

  /// Whether there is such a resource in any storefront.
  func contains(_ key: ResourceKey) -> Bool { byKey[key] != nil }

  /// The related resources of an item under a relationship's name, without those that the storefront does not have.
  func related(_ item: Item, _ name: String, in storefront: String) -> [Item] {
    (item.related[name] ?? []).compactMap { self.item($0, in: storefront) }
  }
}

extension Item {
  fileprivate func isAvailable(in storefront: String) -> Bool {
    storefronts?.contains(storefront) ?? true
  }
}
