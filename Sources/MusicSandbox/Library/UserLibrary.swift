import Locks

/// What one user has: music, playlists, ratings. In memory, bounded, gone when the emulator ends.
final class UserLibrary: @unchecked Sendable {
  // Sendable: everything mutable is only touched inside the mutex.

  /// Most playlists, tracks in a playlist, resources, and ratings.
  enum Limit {
    static let playlists = 100
    static let tracks = 1000
    static let resources = 2000
    static let ratings = 1000
  }

  /// A playlist that a user made.
  struct Playlist: Sendable {
    let id: String
    var name: String
    var description: String?
    /// Songs and music videos of the catalog.
    var tracks: [ResourceKey]
    /// Seconds since 1970.
    let added: Int
  }

  private let mutex = Mutex()
  private var keys = [AmericanTeen.release.key]
  private var songs = AmericanTeen.release.tracks.map { ResourceKey(.songs, $0.id) }
  private var playlistList: [Playlist] = []
  private var ratings: [ResourceKey: Int] = [:]
  private var playlistsMade = 0

  /// A library that has the album of the talk, and a playlist of its first songs.
  init() {
    playlistList = [
      Playlist(id: "p.sandbox0", name: "Mine", description: nil, tracks: Array(songs.prefix(5)), added: 1_735_689_600)
    ]
  }

  // MARK: Music

  /// The albums, songs, or other resources of the catalog that are in the library, the first added first.
  func resources(_ type: ResourceType) -> [ResourceKey] {
    mutex.withLock { type == .songs ? songs : keys.filter { $0.type == type } }
  }

  /// Adds a resource, an album with its songs. False if there is no room.
  func add(_ key: ResourceKey, songs added: [ResourceKey]) -> Bool {
    mutex.withLock {
      guard keys.count + songs.count + added.count < Limit.resources else { return false }
      if key.type == .songs {
        if !songs.contains(key) { songs.append(key) }
      } else if !keys.contains(key) {
        keys.append(key)
      }
      songs += added.filter { !songs.contains($0) }
      return true
    }
  }

  // MARK: Playlists

  var playlists: [Playlist] { mutex.withLock { playlistList } }

  func playlist(_ id: String) -> Playlist? {
    mutex.withLock { playlistList.first { $0.id == id } }
  }

  /// A new playlist; nil if there are as many as there may be.
  func makePlaylist(name: String, description: String?, tracks: [ResourceKey], now: Int) -> Playlist? {
    mutex.withLock {
      guard playlistList.count < Limit.playlists, tracks.count <= Limit.tracks else { return nil }
      playlistsMade += 1
      let playlist = Playlist(
        id: "p.sandbox\(playlistsMade)", name: name, description: description, tracks: tracks, added: now)
      playlistList.append(playlist)
      return playlist
    }
  }

  /// Changes a playlist. Returns false if the playlist does not exist, or would have more tracks than the limit.
  func changePlaylist(_ id: String, _ change: (inout Playlist) -> Void) -> Bool {
    mutex.withLock {
      guard let index = playlistList.firstIndex(where: { $0.id == id }) else { return false }
      var playlist = playlistList[index]
      change(&playlist)
      guard playlist.tracks.count <= Limit.tracks else { return false }
      playlistList[index] = playlist
      return true
    }
  }

  /// Removes a playlist. Returns false if the playlist does not exist.
  func removePlaylist(_ id: String) -> Bool {
    mutex.withLock {
      let count = playlistList.count
      playlistList.removeAll { $0.id == id }
      return playlistList.count < count
    }
  }

  // MARK: Ratings

  func rating(_ key: ResourceKey) -> Int? { mutex.withLock { ratings[key] } }

  /// Sets a rating, 1 or -1; nil removes it. False if there is no room.
  func rate(_ key: ResourceKey, _ value: Int?) -> Bool {
    mutex.withLock {
      guard value == nil || ratings[key] != nil || ratings.count < Limit.ratings else { return false }
      ratings[key] = value
      return true
    }
  }
}
