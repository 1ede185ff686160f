/// A resource of the catalog, independent of language and storefront.
struct Item: Sendable {
  let key: ResourceKey
  let name: LocalizedText
  /// The attributes that every response contains, except for the name.
  var attributes: [Attribute]
  /// The attributes that a request can add with `extend`.
  var extended: [Attribute] = []
  /// The related resources by the name of the relationship or view, in order.
  var related: [String: [ResourceKey]] = [:]
  /// The text in which a search looks in addition to the name.
  var alsoFoundBy = ""
  /// The words of the English name and of `alsoFoundBy`, for searches. The catalog computes them.
  var searchWords: (name: [String], others: [String]) = ([], [])
  /// The genres of the resource.
  var genres: [String] = []
  /// The storefronts that offer the resource; nil for all.
  var storefronts: Set<String>?
  /// The bar code or recording code, for filters.
  var code: String?

  init(_ type: ResourceType, _ id: String, name: LocalizedText, _ attributes: [Attribute]) {
    key = ResourceKey(type, id)
    self.name = name
    self.attributes = attributes
  }
}

/// An attribute. Its value may depend on storefront, language and server.
struct Attribute: Sendable {
  let name: String
  let value: Value

  init(_ name: String, _ value: Value) {
    (self.name, self.value) = (name, value)
  }

  enum Value: Sendable {
    /// The same value for all requests.
    case fixed(Document)
    /// A text in the language of the request.
    case text(LocalizedText)
    /// An object of `standard` and `short`.
    case notes(LocalizedText)
    /// The resource's own picture, which is square.
    case artwork
    /// The picture of another resource: a song has its album's.
    case artworkOf(ResourceKey)
    /// The names of genres.
    case genreNames([String])
    /// The play parameters, which a player needs.
    case playParams
    /// The address of a web page.
    case page
  }
}

/// A text in several languages.
struct LocalizedText: Sendable, ExpressibleByStringInterpolation {
  /// The English text, for languages without a translation.
  let standard: String
  /// Translations by primary language subtag (RFC 5646 §2.2.1).
  let translations: [String: String]

  init(_ standard: String, _ translations: [String: String] = [:]) {
    (self.standard, self.translations) = (standard, translations)
  }

  init(stringLiteral value: String) { self.init(value) }

  /// Returns the text in the language of a tag such as `de-DE`.
  subscript(tag: String) -> String {
    translations[String(tag.prefix { $0 != "-" })] ?? standard
  }
}

/// An album in the tables, from which its resources are created.
struct Release: Sendable {
  let id: String
  let name: String
  let artist: ResourceKey
  let artistName: String
  let genres: [String]
  /// The date, as in `2017-03-03`.
  let date: String
  let label: String
  let notes: LocalizedText
  let tracks: [Track]
  var storefronts: Set<String>?

  /// A song of an album.
  struct Track: Sendable {
    let id: String
    let name: String
    let milliseconds: Int
    let isExplicit: Bool
  }

  var key: ResourceKey { ResourceKey(.albums, id) }
  var isSingle: Bool { tracks.count == 1 }

  /// A bar code without a product: its prefix is reserved for use within a company.
  var upc: String { "02\(String(id.suffix(10)))" }

  /// Returns a recording code of a country that does not exist.
  func isrc(_ track: Track) -> String { "ZZSBX\(date.dropFirst(2).prefix(2))\(track.id.suffix(5))" }
}

/// The resources of one release.
struct ReleaseItems {
  private let release: Release
  private let genres: [ResourceKey]

  init(_ release: Release) {
    self.release = release
    genres = release.genres.map { ResourceKey(.genres, $0) }
  }

  var album: Item {
    var item = Item(
      .albums, release.id, name: LocalizedText(release.name),
      [
        Attribute("artistName", .fixed(.string(release.artistName))), Attribute("artwork", .artwork),
        Attribute("copyright", .fixed("℗ \(String(release.date.prefix(4))) \(release.label)")),
        Attribute("editorialNotes", .notes(release.notes)), Attribute("genreNames", .genreNames(release.genres)),
        Attribute("isCompilation", .fixed(false)), Attribute("isComplete", .fixed(true)),
        Attribute("isMasteredForItunes", .fixed(true)), Attribute("isSingle", .fixed(.bool(release.isSingle))),
        Attribute("playParams", .playParams), Attribute("recordLabel", .fixed(.string(release.label))),
        Attribute("releaseDate", .fixed(.string(release.date))),
        Attribute("trackCount", .fixed(.number(release.tracks.count))),
        Attribute("upc", .fixed(.string(release.upc))), Attribute("url", .page),
      ] + rating(release.tracks.contains(where: \.isExplicit)))
    item.extended = [artistURL, Attribute("audioVariants", .fixed(["lossless"]))]
    item.related = [
      "artists": [release.artist], "genres": genres, "tracks": release.tracks.map { ResourceKey(.songs, $0.id) },
    ]
    complete(&item, code: release.upc)
    return item
  }

  var songs: [Item] {
    release.tracks.enumerated().map { index, track in song(track, number: index + 1) }
  }

  private func song(_ track: Release.Track, number: Int) -> Item {
    var item = Item(
      .songs, track.id, name: LocalizedText(track.name),
      common(track) + [
        Attribute("albumName", .fixed(.string(release.name))), Attribute("artwork", .artworkOf(release.key)),
        Attribute("composerName", .fixed(.string(release.artistName))), Attribute("discNumber", .fixed(1)),
        Attribute("hasLyrics", .fixed(true)), Attribute("isAppleDigitalMaster", .fixed(true)),
        Attribute("previews", .fixed([])), Attribute("trackNumber", .fixed(.number(number))),
      ])
    item.extended = [artistURL, Attribute("audioVariants", .fixed(["lossless"]))]
    item.related = ["albums": [release.key], "artists": [release.artist], "genres": genres]
    if number == 1 { item.related["station"] = [ResourceKey(.stations, "ra.\(release.artist.id)")] }
    complete(&item, code: release.isrc(track))
    return item
  }

  /// Returns the video of a song of this release.
  func video(of track: Release.Track, id: String) -> Item {
    var item = Item(
      .musicVideos, id, name: LocalizedText(track.name),
      common(track) + [
        Attribute("artwork", .artwork), Attribute("has4K", .fixed(false)), Attribute("hasHDR", .fixed(false)),
        Attribute("previews", .fixed([])),
      ])
    item.extended = [artistURL]
    item.related = [
      "albums": [release.key], "artists": [release.artist], "genres": genres,
      "songs": [ResourceKey(.songs, track.id)],
    ]
    complete(&item, code: nil)
    return item
  }

  private func common(_ track: Release.Track) -> [Attribute] {
    [
      Attribute("artistName", .fixed(.string(release.artistName))),
      Attribute("durationInMillis", .fixed(.number(track.milliseconds))),
      Attribute("genreNames", .genreNames(release.genres)),
      Attribute("isrc", .fixed(.string(release.isrc(track)))), Attribute("playParams", .playParams),
      Attribute("releaseDate", .fixed(.string(release.date))), Attribute("url", .page),
    ] + rating(track.isExplicit)
  }

  private func rating(_ isExplicit: Bool) -> [Attribute] {
    isExplicit ? [Attribute("contentRating", .fixed("explicit"))] : []
  }

  private var artistURL: Attribute {
    Attribute("artistUrl", .fixed("https://music.apple.com/us/artist/\(release.artist.id)"))
  }

  private func complete(_ item: inout Item, code: String?) {
    item.genres = release.genres
    item.storefronts = release.storefronts
    item.alsoFoundBy = release.artistName
    item.code = code
  }
}
