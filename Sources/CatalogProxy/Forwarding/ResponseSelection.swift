import Bytes

/// What a request selects of Apple's response, and whether that is the same for all users (docs/decisions.md, 68).
/// Only elements decide: of the parameters that select what a response contains, and of the path. A term, a name or an ID
/// is text, and never decides.
enum ResponseSelection {
  /// Returns whether a validated query, without its question mark, selects only what is the same for all users.
  static func isSameForAll(query: Span<UInt8>) -> Bool {
    var copy: [UInt8] = []
    copy.append(copying: query)
    return copy.split(separator: UInt8(ascii: "&")).allSatisfy { parameter in
      let equals = parameter.firstIndex(of: UInt8(ascii: "=")) ?? parameter.endIndex
      return isSameForAll(name: parameter[..<equals], value: parameter[equals...].dropFirst())
    }
  }

  static func isSameForAll(path: [UInt8], _ kind: CatalogTarget.Kind) -> Bool {
    let segments = path.split(separator: UInt8(ascii: "/"))
    switch kind {
    case .me: return false
    case .test, .language: return true
    case .storefronts: return segments.count <= 3
    case .catalog:
      // After /v1/catalog/{storefront} come the type and the ID, which is text, or a word behind `search`.
      let rest = segments.dropFirst(3)
      guard let type = rest.first else { return true }
      let hasID = !withoutID.contains { type.elementsEqual($0.bytes) }
      return isKnown(type) && rest.dropFirst(hasID ? 2 : 1).allSatisfy { isKnown($0) }
    }
  }

  private static func isSameForAll(name: ArraySlice<UInt8>, value: ArraySlice<UInt8>) -> Bool {
    let name = trimmed(decoded(name)[...])
    let word = name.prefix { $0.isASCIILetter }
    let base = ByteString(Array(word)).lowercasedASCII
    guard selecting.contains(base) else { return true }
    if base == "filter", name.count > word.count {
      // The name in brackets says what the filter compares. Its value is text.
      return hasOnlyKnown(name.dropFirst(word.count)) { !$0.isUnreservedInURI }
    }
    return hasOnlyKnown(decoded(value)[...]) { $0 == UInt8(ascii: ",") }
  }

  private static func hasOnlyKnown(_ list: ArraySlice<UInt8>, _ isSeparator: (UInt8) -> Bool) -> Bool {
    list.split(whereSeparator: isSeparator).map(trimmed).allSatisfy { $0.isEmpty || isKnown($0) }
  }

  private static func isKnown(_ element: ArraySlice<UInt8>) -> Bool { sameForAll.contains(ByteString(Array(element))) }

  private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let text = text.drop { $0 == UInt8(ascii: " ") }
    return text.prefix((text.lastIndex { $0 != UInt8(ascii: " ") } ?? text.startIndex - 1) + 1 - text.startIndex)
  }

  /// Returns a part of a query without escapes, with a space for each plus sign.
  private static func decoded(_ part: ArraySlice<UInt8>) -> [UInt8] {
    let spaced = part.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
    return PercentEncoding.decode(spaced.span) ?? spaced
  }
}

extension ResponseSelection {
  /// The parameters that select what a response contains, alone or with a name in brackets.
  private static let selecting: Set<ByteString> = [
    "extend", "fields", "filter", "include", "includeonly", "relate", "views", "with",
  ]

  /// The first segments behind the storefront that no ID follows.
  private static let withoutID: [ByteString] = ["charts", "search"]

  /// Every element and path segment that is known to be the same for all users. A word may belong to several groups.
  private static let sameForAll: Set<ByteString> = [
    // The types of the catalog, and the other segments behind a storefront.
    "activities", "albums", "apple-curators", "artists", "charts", "curators", "genres", "hints", "music-videos",
    "playlists", "record-labels", "search", "songs", "station-genres", "stations", "storefronts", "suggestions", "view",
    // The relationships of the catalog, except `library`. Lyrics are not among them: Apple gives them to subscribers.
    "audio-extras", "composers", "curator", "radio-show", "station", "tracks",
    // The views.
    "appears-on", "appears-on-albums", "compilation-albums", "featured-albums", "featured-artists",
    "featured-music-videos", "featured-playlists", "full-albums", "latest-release", "latest-releases", "live-albums",
    "more-by-artist", "more-by-curator", "more-in-genre", "other-versions", "related-albums", "related-videos",
    "similar-artists", "singles", "top-albums", "top-artists", "top-music-videos", "top-playlists", "top-releases",
    "top-songs", "top-videos", "video-extras", "you-might-also-like",
    // The attributes of the catalog, those of `extend` included.
    "albumName", "artistBio", "artistName", "artistUrl", "artwork", "attribution", "audioLocale", "audioTraits",
    "audioVariants", "bornOrFormed", "chart", "chartLabel", "composerName", "contentRating", "copyright", "curatorName",
    "defaultLanguageTag", "description", "discNumber", "durationInMillis", "editorialArtwork", "editorialNotes",
    "editorialVideo", "episodeNumber", "explicitContentPolicy", "genreNames", "has4K", "hasCredits", "hasHDR",
    "hasLyrics", "hasTimeSyncedLyrics", "href", "id", "isAppleDigitalMaster", "isChart", "isCompilation", "isComplete",
    "isGroup", "isLive", "isMasteredForItunes", "isPrerelease", "isSingle", "isVocalAttenuationAllowed", "isrc", "kind",
    "lastModifiedDate", "mediaKind", "movementCount", "movementName", "movementNumber", "name", "offers", "origin",
    "parentId", "parentName", "playParams", "playlistType", "plainEditorialNotes", "popularity", "previews",
    "recordLabel", "releaseDate", "seoDescription", "seoTitle", "shortName", "stationProviderName",
    "supportedLanguageTags", "supportedSources", "title", "trackCount", "trackNumber", "trackTypes", "type", "upc",
    "url", "versionHash", "videoSubType", "videoTraits", "workName",
    // The values of `with`, and the filters.
    "attributes", "cityCharts", "dailyGlobalTopCharts", "equivalents", "featured", "ids", "storefront",
    "storefront-chart", "tags", "topResults",
  ]
}
