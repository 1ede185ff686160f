extension CatalogTarget {
  /// The paths that the proxy forwards, as Apple's documentation lists them. A name in braces stands for one segment.
  /// The proxy also forwards what Apple has below these paths, as ``CatalogRoute`` decides.
  public static let templates = [
    "/v1/catalog/{storefront}", "/v1/catalog/{storefront}/search", "/v1/catalog/{storefront}/search/hints",
    "/v1/catalog/{storefront}/search/suggestions", "/v1/catalog/{storefront}/charts",
    "/v1/catalog/{storefront}/{type}", "/v1/catalog/{storefront}/{type}/{id}",
    "/v1/catalog/{storefront}/{type}/{id}/{relationship}", "/v1/catalog/{storefront}/{type}/{id}/view/{view}",
    "/v1/storefronts", "/v1/storefronts/{storefront}", "/v1/language/{storefront}/tag", "/v1/test",
  ]

  /// Those of a user, where they are forwarded.
  public static let userTemplates = [
    "/v1/me/library/{path}", "/v1/me/ratings/{path}", "/v1/me/recommendations/{path}", "/v1/me/recent/{path}",
    "/v1/me/history/{path}", "/v1/me/storefront", "/v1/me/{path}",
  ]
}
