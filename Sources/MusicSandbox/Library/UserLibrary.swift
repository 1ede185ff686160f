import Locks

/// The library of one user: music, playlists, ratings. It is in memory and bounded, and ends with the emulator.
final class UserLibrary: Sendable {
  /// The maximum number of playlists, of tracks in a playlist, of resources, and of ratings.
  enum Limit {
    static let playlists = 100
    static let tracks = 1000
    static let resources = 2000
    static let ratings = 1000
  }

  /// A playlist of the user.
  struct Playlist: Sendable {
    let id: String
    var name: String
    var description: String?
    /// The songs and music videos of the catalog.
    var tracks: [ResourceKey]
    /// The time of creation in seconds since 1970.
    let added: Int
  }

  private struct State {
    var keys = [AmericanTeen.release.key]
    var songs = AmericanTeen.release.tracks.map { ResourceKey(.songs, $0.id) }
    var playlists: [Playlist]
    var ratings: [ResourceKey: Int] = [:]
    var playlistsMade = 0

    init() {
      playlists = [
        Playlist(id: "p.sandbox0", name: "Mine", description: nil, tracks: Array(songs.prefix(5)), added: 1_735_689_600)
      ]
    }
  }

  private let state: Locked<State>

  /// Creates a library with the album of the talk, and a playlist of its first songs.
  init() {
    state = Locked(State())
  }

  // MARK: Music

  /// Returns the resources of a type in the library, oldest first.
  func resources(_ type: ResourceType) -> [ResourceKey] {
    state.withLock { state in type == .songs ? state.songs : state.keys.filter { $0.type == type } }
  }

  /// Adds a resource, and for an album its songs. Returns false if there is no room.
  func add(_ key: ResourceKey, songs added: [ResourceKey]) -> Bool {
    state.withLock { state in
      guard state.keys.count + state.songs.count + added.count < Limit.resources else { return false }
      if key.type == .songs {
        if !state.songs.contains(key) { state.songs.append(key) }
      } else if !state.keys.contains(key) {
        state.keys.append(key)
      }
      let missing = added.filter { !state.songs.contains($0) }
      state.songs += missing
      return true
    }
  }

  // MARK: Playlists

  var playlists: [Playlist] { state.withLock { $0.playlists } }

  func playlist(_ id: String) -> Playlist? {
    state.withLock { state in state.playlists.first { $0.id == id } }
  }

  /// Creates a playlist. Returns nil at the maximum number of playlists or tracks.
  func makePlaylist(name: String, description: String?, tracks: [ResourceKey], now: Int) -> Playlist? {
    state.withLock { state in
      guard state.playlists.count < Limit.playlists, tracks.count <= Limit.tracks else { return nil }
      state.playlistsMade += 1
      let playlist = Playlist(
        id: "p.sandbox\(state.playlistsMade)", name: name, description: description, tracks: tracks, added: now)
      state.playlists.append(playlist)
      return playlist
    }
  }

  /// Changes a playlist. Returns false if the playlist does not exist, or would have more tracks than the limit.
  func changePlaylist(_ id: String, _ change: (inout Playlist) -> Void) -> Bool {
    state.withLock { state in
      guard let index = state.playlists.firstIndex(where: { $0.id == id }) else { return false }
      var playlist = state.playlists[index]
      change(&playlist)
      guard playlist.tracks.count <= Limit.tracks else { return false }
      state.playlists[index] = playlist
      return true
    }
  }

  /// Removes a playlist. Returns false if the playlist does not exist.
  func removePlaylist(_ id: String) -> Bool {
    state.withLock { state in
      let count = state.playlists.count
      state.playlists.removeAll { $0.id == id }
      return state.playlists.count < count
    }
  }

  // MARK: Ratings

  func rating(_ key: ResourceKey) -> Int? { state.withLock { $0.ratings[key] } }

  /// Sets a rating, 1 or -1; nil removes it. Returns false if there is no room.
  func rate(_ key: ResourceKey, _ value: Int?) -> Bool {
    state.withLock { state in
      guard value == nil || state.ratings[key] != nil || state.ratings.count < Limit.ratings else { return false }
      state.ratings[key] = value
      return true
    }
  }
}
