/// A resource of the catalog, before anybody has asked for it in a language or storefront.
struct Item: Sendable {
  let key: ResourceKey
  let name: LocalizedText
  /// The attributes that every response contains, except for the name.
  var attributes: [Attribute]
  /// Those that `extend` asks for.
  var extended: [Attribute] = []
  /// Relationships and views by their names, in order.
  var related: [String: [ResourceKey]] = [:]
  /// What else than its name it is found by.
  var alsoFoundBy = ""
  /// The words of the name in English and of `alsoFoundBy`, which a search looks at; made by the catalog.
  var searchWords: (name: [String], others: [String]) = ([], [])
  /// The genres that it is in.
  var genres: [String] = []
  /// Where it is to be had; nil for everywhere.
  var storefronts: Set<String>?
  /// Bar code or recording code, for filters.
  var code: String?

  init(_ type: ResourceType, _ id: String, name: LocalizedText, _ attributes: [Attribute]) {
    key = ResourceKey(type, id)
    self.name = name
    self.attributes = attributes
  }
}

/// An attribute, whose value may depend on storefront, language and server.
struct Attribute: Sendable {
  let name: String
  let value: Value

  init(_ name: String, _ value: Value) {
    (self.name, self.value) = (name, value)
  }

  enum Value: Sendable {
    /// The same for all.
    case fixed(Document)
    /// A text in the reader's language.
    case text(LocalizedText)
    /// An object of `standard` and `short`.
    case notes(LocalizedText)
    /// A picture of its own, square.
    case artwork
    /// The picture of another resource, as a song has its album's.
    case artworkOf(ResourceKey)
    /// The names of genres.
    case genreNames([String])
    /// What a player needs.
    case playParams
    /// The address of a web page.
    case page
  }
}
