/// A resource type of the emulator's catalog.
enum ResourceType: String, Sendable, Hashable, CaseIterable {
  case albums
  case appleCurators = "apple-curators"
  case artists
  case curators
  case genres
  case musicVideos = "music-videos"
  case playlists
  case recordLabels = "record-labels"
  case songs
  case stations

  /// The maximum number of `ids` in a request, as Apple documents it.
  var maximumIDs: Int {
    switch self {
    case .songs: 300
    case .albums, .musicVideos: 100
    case .artists, .appleCurators, .curators, .genres, .playlists, .recordLabels, .stations: 25
    }
  }

  /// The `kind` of the play parameters; nil if resources of this type cannot be played.
  var playKind: String? {
    switch self {
    case .albums: "album"
    case .songs: "song"
    case .musicVideos: "musicVideo"
    case .playlists: "playlist"
    case .stations: "radioStation"
    case .appleCurators, .artists, .curators, .genres, .recordLabels: nil
    }
  }

  /// The heading of charts of this type; nil if there are none.
  var chartName: String? {
    switch self {
    case .albums: "Top Albums"
    case .songs: "Top Songs"
    case .musicVideos: "Top Music Videos"
    case .playlists: "Top Playlists"
    default: nil
    }
  }

  /// The word for this type in the path of a web page.
  var pageWord: String {
    switch self {
    case .albums: "album"
    case .artists: "artist"
    case .curators, .appleCurators: "curator"
    case .genres: "genre"
    case .musicVideos: "music-video"
    case .playlists: "playlist"
    case .recordLabels: "label"
    case .songs: "song"
    case .stations: "station"
    }
  }
}

/// A relationship of a resource type, and the part of it that a response shows.
struct RelationshipRule: Sendable {
  /// The content of a relationship in a top-level resource without `include`.
  enum Appearance: Sendable {
    /// Whole resources.
    case resources
    /// Only their identifiers.
    case identifiers
    /// Nothing.
    case onRequest
  }

  let name: String
  let appearance: Appearance
  /// The default number of resources in a page.
  let defaultLimit: Int
  /// The maximum value of `limit`.
  let maximumLimit: Int

  init(_ name: String, _ appearance: Appearance, _ defaultLimit: Int, _ maximumLimit: Int) {
    (self.name, self.appearance) = (name, appearance)
    (self.defaultLimit, self.maximumLimit) = (defaultLimit, maximumLimit)
  }
}

extension ResourceType {
  /// The relationships of this type, with the page sizes that Apple documents.
  var relationships: [RelationshipRule] {
    switch self {
    case .albums:
      [
        .init("artists", .identifiers, 10, 10), .init("genres", .onRequest, 10, 10),
        .init("record-labels", .onRequest, 10, 10), .init("tracks", .resources, 300, 300),
      ]
    case .artists:
      [
        .init("albums", .identifiers, 25, 100), .init("genres", .onRequest, 10, 10),
        .init("music-videos", .onRequest, 25, 100), .init("playlists", .onRequest, 10, 10),
        .init("station", .onRequest, 1, 1),
      ]
    case .songs:
      [
        .init("albums", .identifiers, 10, 10), .init("artists", .identifiers, 10, 10),
        .init("genres", .onRequest, 10, 10), .init("music-videos", .onRequest, 10, 10),
        .init("station", .onRequest, 1, 1),
      ]
    case .musicVideos:
      [
        .init("albums", .identifiers, 10, 10), .init("artists", .identifiers, 10, 10),
        .init("genres", .onRequest, 10, 10), .init("songs", .onRequest, 10, 10),
      ]
    case .playlists: [.init("curator", .identifiers, 1, 1), .init("tracks", .resources, 100, 300)]
    case .curators, .appleCurators: [.init("playlists", .identifiers, 10, 100)]
    case .genres, .recordLabels, .stations: []
    }
  }

  /// The views of this type with their titles.
  var views: [(name: String, title: String)] {
    switch self {
    case .albums: [("appears-on", "Appears On"), ("related-albums", "You Might Also Like")]
    case .artists:
      [
        ("full-albums", "Albums"), ("latest-release", "Latest Release"), ("similar-artists", "Similar Artists"),
        ("singles", "Singles & EPs"), ("top-songs", "Top Songs"),
      ]
    case .playlists: [("featured-artists", "Featured Artists"), ("more-by-curator", "More Like This")]
    case .recordLabels: [("latest-releases", "Latest Releases"), ("top-releases", "Top Releases")]
    default: []
    }
  }
}
