/// Where and for whom resources are described.
struct Place: Sendable {
  let catalog: Catalog
  let storefront: Storefront
  /// The language tag of the answer.
  let language: String
  /// The tag that the request asked for, which the answer's `next` keeps.
  let requestedLanguage: String?
  /// What absolute URLs of the emulator begin with, such as `http://localhost:8081`.
  let base: String

  /// The path of a resource.
  func href(_ key: ResourceKey) -> String {
    "/v1/catalog/\(storefront.id)/\(key.type.rawValue)/\(key.id)"
  }

  /// The path of the page that follows: it has the offset, and repeats neither `limit` nor `extend`.
  func next(_ path: String, _ paging: Paging, count: Int) -> Document? {
    guard let offset = paging.nextOffset(count: count) else { return nil }
    let language = requestedLanguage.map { "l=\(PercentCoding.encodeQueryValue($0))&" } ?? ""
    return .string("\(path)?\(language)offset=\(offset)")
  }
}
