extension CatalogTarget {
  /// Whose resource a target is.
  public enum Kind: Sendable, Equatable {
    /// `/v1/catalog/{storefront}` and what is below.
    case catalog
    /// `/v1/storefronts` and what is below.
    case storefronts
    /// `/v1/language/{storefront}/tag`.
    case language
    /// `/v1/test`, which only checks the developer token.
    case test
    /// Below `/v1/me`.
    case me
  }
}
