/// Which of Apple's resources a path leads to.
struct CatalogRoute {
  let kind: CatalogTarget.Kind
  /// The template, one of a fixed few: a label for logs and metrics.
  let template: StaticString
  let storefront: String?

  /// Throws if the proxy does not forward the path.
  init(_ segments: PathSegments, allowsMe: Bool) throws(TargetRefusal) {
    guard segments.has("v1", at: 0) else { throw .unknownPath }
    if segments.has("catalog", at: 1) {
      kind = .catalog
      storefront = try segments.storefront(at: 2)
      template = Self.catalogTemplate(segments)
    } else if segments.has("storefronts", at: 1) {
      kind = .storefronts
      storefront = nil
      template = Self.storefrontsTemplate(segments)
    } else if segments.has("language", at: 1), segments.count == 4, segments.has("tag", at: 3) {
      kind = .language
      storefront = try segments.storefront(at: 2)
      template = "/v1/language/{storefront}/tag"
    } else if segments.has("test", at: 1), segments.count == 2 {
      kind = .test
      storefront = nil
      template = "/v1/test"
    } else if segments.has("me", at: 1), segments.count > 2 {
      guard allowsMe else { throw .meDisabled }
      kind = .me
      storefront = nil
      template = Self.meTemplate(segments)
    } else {
      throw .unknownPath
    }
  }

  private static func catalogTemplate(_ segments: PathSegments) -> StaticString {
    switch segments.count {
    case 3: "/v1/catalog/{storefront}"
    case 4 where segments.has("search", at: 3): "/v1/catalog/{storefront}/search"
    case 4 where segments.has("charts", at: 3): "/v1/catalog/{storefront}/charts"
    case 4: "/v1/catalog/{storefront}/{type}"
    case 5 where segments.has("search", at: 3) && segments.has("hints", at: 4):
      "/v1/catalog/{storefront}/search/hints"
    case 5 where segments.has("search", at: 3) && segments.has("suggestions", at: 4):
      "/v1/catalog/{storefront}/search/suggestions"
    case 5: "/v1/catalog/{storefront}/{type}/{id}"
    case 6: "/v1/catalog/{storefront}/{type}/{id}/{relationship}"
    case 7 where segments.has("view", at: 5): "/v1/catalog/{storefront}/{type}/{id}/view/{view}"
    default: "/v1/catalog/{storefront}/*"
    }
  }

  private static func storefrontsTemplate(_ segments: PathSegments) -> StaticString {
    switch segments.count {
    case 2: "/v1/storefronts"
    case 3: "/v1/storefronts/{storefront}"
    default: "/v1/storefronts/*"
    }
  }

  private static func meTemplate(_ segments: PathSegments) -> StaticString {
    if segments.has("library", at: 2) { return "/v1/me/library/*" }
    if segments.has("ratings", at: 2) { return "/v1/me/ratings/*" }
    if segments.has("recommendations", at: 2) { return "/v1/me/recommendations/*" }
    if segments.has("recent", at: 2) { return "/v1/me/recent/*" }
    if segments.has("history", at: 2) { return "/v1/me/history/*" }
    if segments.has("storefront", at: 2) { return "/v1/me/storefront" }
    return "/v1/me/*"
  }
}
