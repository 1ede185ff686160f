/// The resource types that the emulator's catalog has.
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

  /// Most that one request may name in `ids`, as Apple documents it.
  var maximumIDs: Int {
    switch self {
    case .songs: 300
    case .albums, .musicVideos: 100
    case .artists, .appleCurators, .curators, .genres, .playlists, .recordLabels, .stations: 25
    }
  }

  /// The `kind` of play parameters; nil if there is nothing to play.
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

  /// The word for it in the path of a web page.
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
