/// All resources of the emulator; immutable.
struct Catalog: Sendable {
  /// The resources of each type, the most popular first.
  private let lists: [ResourceType: [Item]]
  private let byKey: [ResourceKey: Item]

  init(_ items: [Item]) {
    let items = items.map { item in
      var item = item
      item.searchWords = (Matches.words(item.name.standard), Matches.words(item.alsoFoundBy))
      return item
    }
    lists = Dictionary(grouping: items, by: \.key.type)
    byKey = Dictionary(items.map { ($0.key, $0) }) { first, _ in first }
  }

  /// The built-in catalog.
  static let builtIn = CatalogBuilder().catalog()

  /// Returns the resource with a key; nil if it does not exist in the storefront.
  func item(_ key: ResourceKey, in storefront: String) -> Item? {
    guard let item = byKey[key], item.isAvailable(in: storefront) else { return nil }
    return item
  }

  /// Returns all resources of a type in the storefront.
  func all(_ type: ResourceType, in storefront: String) -> [Item] {
    (lists[type] ?? []).filter { $0.isAvailable(in: storefront) }
  }

  /// Returns whether such a resource exists in any storefront.
  func contains(_ key: ResourceKey) -> Bool { byKey[key] != nil }

  /// Returns the resources under a relationship's name, without those that are missing in the storefront.
  func related(_ item: Item, _ name: String, in storefront: String) -> [Item] {
    (item.related[name] ?? []).compactMap { self.item($0, in: storefront) }
  }
}

extension Item {
  fileprivate func isAvailable(in storefront: String) -> Bool {
    storefronts?.contains(storefront) ?? true
  }
}

/// Builds the catalog from its tables.
struct CatalogBuilder {
  private var items: [Item] = GenreTable.items
  private var releases: [Release] = []

  /// Returns the catalog, which is the same in every run.
  func catalog() -> Catalog {
    var builder = self
    builder.addArtist(AmericanTeen.artist, AmericanTeen.artistName, AmericanTeen.genres, [AmericanTeen.release])
    for (index, row) in FictionalArtists.rows.enumerated() {
      let artist = ResourceKey(.artists, "\(8_000_000_000 + index + 1)")
      let releases = FictionalArtists.releases(of: index, artist)
      builder.addArtist(artist, row.name, [row.genre, GenreTable.music], releases)
    }
    builder.addLabels()
    builder.addPlaylists()
    builder.addStations()
    builder.relate(.albums, "related-albums")
    builder.relate(.artists, "similar-artists")
    builder.addAppearances()
    return Catalog(builder.items)
  }

  // MARK: Artists and their music

  private mutating func addArtist(_ key: ResourceKey, _ name: String, _ genres: [String], _ releases: [Release]) {
    var artist = Item(
      .artists, key.id, name: LocalizedText(name),
      [Attribute("artwork", .artwork), Attribute("genreNames", .genreNames(genres)), Attribute("url", .page)])
    artist.genres = genres
    artist.extended = [
      Attribute("artistBio", .text("The emulator knows nothing about \(name).")),
      Attribute("isGroup", .fixed(.bool(name.contains("The ") || name.contains("&")))),
    ]
    let byDate = releases.sorted { $0.date > $1.date }
    artist.related = [
      "albums": releases.map(\.key), "genres": genres.map { ResourceKey(.genres, $0) },
      "station": [ResourceKey(.stations, "ra.\(key.id)")],
      "full-albums": releases.filter { !$0.isSingle }.map(\.key), "singles": releases.filter(\.isSingle).map(\.key),
      "latest-release": byDate.prefix(1).map(\.key),
      "top-songs": releases.flatMap { $0.tracks.prefix(5) }.map { ResourceKey(.songs, $0.id) },
      "music-videos": [ResourceKey(.musicVideos, "\(key.id)01")],
    ]
    items.append(artist)
    for release in releases { add(release) }
    if let song = releases.first?.tracks.first { addVideo(of: song, by: releases[0], id: "\(key.id)01") }
  }

  private mutating func add(_ release: Release) {
    releases.append(release)
    items.append(ReleaseItems(release).album)
    items.append(contentsOf: ReleaseItems(release).songs)
  }

  private mutating func addVideo(of song: Release.Track, by release: Release, id: String) {
    items.append(ReleaseItems(release).video(of: song, id: id))
  }

  private mutating func addLabels() {
    for (index, name) in (FictionalArtists.labels + [AmericanTeen.release.label]).enumerated() {
      let albums = releases.filter { $0.label == name }
      var label = Item(
        .recordLabels, "\(7_000_000_001 + index)", name: LocalizedText(name),
        [Attribute("artwork", .artwork), Attribute("url", .page)])
      label.related["top-releases"] = albums.map(\.key)
      label.related["latest-releases"] = albums.sorted { $0.date > $1.date }.map(\.key)
      items.append(label)
      let keys = Set(albums.map(\.key))
      for position in items.indices where keys.contains(items[position].key) {
        items[position].related["record-labels"] = [label.key]
      }
    }
  }

  private mutating func addStations() {
    for artist in items where artist.key.type == .artists {
      items.append(
        Item(
          .stations, "ra.\(artist.key.id)", name: LocalizedText("\(artist.name.standard) Station"),
          [
            Attribute("artwork", .artwork), Attribute("isLive", .fixed(false)),
            Attribute("mediaKind", .fixed("audio")), Attribute("playParams", .playParams), Attribute("url", .page),
          ]))
    }
  }

  /// Relates each resource of a type to the other resources with the same first genre.
  private mutating func relate(_ type: ResourceType, _ name: String) {
    let groups = Dictionary(grouping: items.filter { $0.key.type == type }.map { ($0.key, $0.genres.first) }) { $0.1 }
    for position in items.indices where items[position].key.type == type {
      let (key, genre) = (items[position].key, items[position].genres.first)
      items[position].related[name] = (groups[genre] ?? []).map(\.0).filter { $0 != key }.prefix(20).map(\.self)
    }
  }

  // MARK: Playlists

  private mutating func addPlaylists() {
    let everything = releases.flatMap { release in
      release.storefronts == nil ? release.tracks.map { ResourceKey(.songs, $0.id) } : []
    }
    for row in PlaylistTable.rows {
      var playlist = PlaylistTable.item(row)
      var numbers = Numbers(seed: Numbers.hash(row.id.utf8))
      var pool = row.startsWithKhalid ? everything.filter { !Self.favourites.contains($0) } : everything
      // Without repetition, so that a test can check that every track came once.
      let tracks = (0..<min(row.count, pool.count)).map { _ in pool.remove(at: numbers.next(below: pool.count)) }
      let video = row.hasVideo ? [ResourceKey(.musicVideos, "\(AmericanTeen.artist.id)01")] : []
      playlist.related["tracks"] = (row.startsWithKhalid ? Self.favourites : []) + video + tracks
      playlist.related["featured-artists"] = row.startsWithKhalid ? [AmericanTeen.artist] : []
      playlist.related["more-by-curator"] = PlaylistTable.rows
        .filter { $0.curator == row.curator && $0.id != row.id }.map { ResourceKey(.playlists, $0.id) }
      items.append(playlist)
    }
    items.append(contentsOf: PlaylistTable.curators)
    for position in items.indices where items[position].key == AmericanTeen.artist {
      let rows = PlaylistTable.rows.filter(\.startsWithKhalid)
      items[position].related["playlists"] = rows.map { ResourceKey(.playlists, $0.id) }
    }
  }

  /// Relates albums to the playlists that contain their songs.
  private mutating func addAppearances() {
    var places: [ResourceKey: [ResourceKey]] = [:]
    for playlist in items where playlist.key.type == .playlists {
      for track in playlist.related["tracks"] ?? [] { places[track, default: []].append(playlist.key) }
    }
    for position in items.indices where items[position].key.type == .albums {
      var seen: Set<ResourceKey> = []
      let found = (items[position].related["tracks"] ?? []).flatMap { places[$0] ?? [] }
      items[position].related["appears-on"] = found.filter { seen.insert($0).inserted }
    }
  }

  private static let favourites = AmericanTeen.release.tracks.prefix(3).map { ResourceKey(.songs, $0.id) }
}

/// A generator of pseudorandom numbers, the same in every run (SplitMix64, Steele, Lea and Flood 2014).
struct Numbers {
  private var state: UInt64

  init(seed: UInt64) {
    state = seed
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// Returns a number from 0 to `bound` - 1; 0 unless `bound` is positive.
  mutating func next(below bound: Int) -> Int {
    bound > 0 ? Int(next() % UInt64(bound)) : 0
  }

  /// Returns a hash that depends only on the bytes (FNV-1a, 64 bits).
  static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
    bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
  }
}

/// The key of a resource: its type and identifier.
struct ResourceKey: Sendable, Hashable {
  let type: ResourceType
  let id: String

  init(_ type: ResourceType, _ id: String) {
    (self.type, self.id) = (type, id)
  }
}
