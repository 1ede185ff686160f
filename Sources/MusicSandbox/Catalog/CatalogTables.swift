/// The example album of Apple's talk on MusicKit, with the identifiers on the slides.
enum AmericanTeen {
  static let artist = ResourceKey(.artists, "82842423")
  static let artistName = "Khalid"
  static let genres = ["15", "18", "14", GenreTable.music]

  static let release = Release(
    id: "1200868601", name: "American Teen", artist: artist, artistName: artistName, genres: genres, date: "2017-03-03",
    label: "Right Hand Music Group/RCA Records",
    notes: LocalizedText(
      "The debut that Apple's engineers liked to show: soft synthesizers and a warm voice.",
      [
        "de": "Das Debüt, das Apples Ingenieure gern zeigten: weiche Synthesizer und eine warme Stimme.",
        "fr": "Le premier album que les ingénieurs d'Apple aimaient montrer : synthés doux et voix chaude.",
        "es": "El debut que mostraban los ingenieros de Apple: sintetizadores suaves y una voz cálida.",
        "ja": "Appleのエンジニアがよく紹介したデビューアルバム。",
      ]),
    tracks: rows.enumerated().map { index, row in
      Release.Track(id: ids[index], name: row.0, milliseconds: row.1 * 1000, isExplicit: row.2)
    })

  /// The first two identifiers are on a slide; the rest are invented in the same style.
  private static let ids = ["1200868616", "1200868874"] + (0..<rows.count - 2).map { "\(1_200_869_001 + $0 * 7)" }

  /// The name, the duration in seconds, and whether the track is explicit.
  private static let rows: [(String, Int, Bool)] = [
    ("American Teen", 250, false), ("Young Dumb & Broke", 202, false), ("Location", 219, false),
    ("Another Sad Love Song", 244, false), ("Saved", 206, true), ("Coaster", 199, false), ("8TEEN", 228, true),
    ("Let's Go", 204, true), ("Hopeless", 167, true), ("Cold Blooded", 207, false), ("Winter", 241, false),
    ("Therapy", 257, false), ("Keep Me", 274, false), ("Shot Down", 207, false), ("Angels", 170, false),
  ]
}

/// Invented artists that provide enough data for paging. Some names are hard to read, quote and store, to test clients.
enum FictionalArtists {
  /// The name and genre of each artist. The index determines the identifiers, so new rows must be appended.
  static let rows: [(name: String, genre: String)] = [
    ("The Loopback Four", "21"), ("Ada Portrange", "14"), ("Null & the Pointers", "20"), ("Big Endian", "18"),
    ("Little Endian", "15"), ("The Idle Connections", "11"), ("Mutex Marlene", "10"), ("Kernel Choir", "5"),
    ("DJ Localhost", "17"), ("Race Condition", "7"), ("Les Octets Égarés", "14"), ("Die Warteschlange", "7"),
    ("Señor Desbordamiento", "24"), ("偽のアーティスト", "14"), ("AC/Slash", "21"), ("“Quote” Unquote", "2"),
    ("Emoji 🎷 Orchestra", "11"), ("100% Cotton+Wool", "6"), ("The Half-Open Sockets", "20"),
    ("Stale & Revalidated", "16"),
  ]

  /// The number of albums of each artist; the last is a single.
  static let albumsEach = 3

  /// The releases of the artist at `index`.
  static func releases(of index: Int, _ artist: ResourceKey) -> [Release] {
    (0..<albumsEach).map { album in
      var numbers = Numbers(seed: UInt64(index * albumsEach + album + 1))
      let isSingle = album == albumsEach - 1
      let id = 9_000_000_000 + (index * albumsEach + album + 1) * 1000
      let names = (0..<(isSingle ? 1 : 8 + numbers.next(below: 7))).map { _ in title(&numbers) }
      return Release(
        id: "\(id)", name: isSingle ? "\(names[0]) - Single" : title(&numbers), artist: artist,
        artistName: rows[index].name, genres: [rows[index].genre, GenreTable.music],
        date: "\(2005 + numbers.next(below: 20))-0\(1 + numbers.next(below: 9))-1\(numbers.next(below: 10))",
        label: labels[index % labels.count],
        notes: LocalizedText("An album that does not exist.", ["de": "Ein Album, das es nicht gibt."]),
        tracks: names.enumerated().map { position, name in
          Release.Track(
            id: "\(id + position + 1)", name: name, milliseconds: 120_000 + numbers.next(below: 200_000),
            isExplicit: numbers.next(below: 9) == 0)
        }, storefronts: index == 13 && album == 0 ? ["jp"] : nil)
    }
  }

  static let labels = ["Imaginary Records", "Placeholder Music", "Lorem & Ipsum"]

  private static func title(_ numbers: inout Numbers) -> String {
    "\(first[numbers.next(below: first.count)]) \(second[numbers.next(below: second.count)])"
  }

  private static let first = [
    "Paper", "Silent", "Northern", "Borrowed", "Electric", "Hollow", "Distant", "Velvet", "Broken", "Golden", "Second",
    "Winter", "Amber", "Hidden", "Restless", "Quiet", "Neon", "Faded", "Crooked", "Tidal",
  ]
  private static let second = [
    "Lighthouse", "Harbour", "Signal", "Garden", "Avenue", "Mirror", "Thunder", "Letters", "Horizon", "Engine",
    "Summer",
    "Machine", "River", "Satellite", "Carousel", "Window", "Station", "Orchard", "Weather", "Compass",
  ]
}

/// The genres with Apple's identifiers, and their names in five languages.
enum GenreTable {
  /// The identifier of the genre that contains all others.
  static let music = "34"

  static let items: [Item] = rows.map { row in
    var item = Item(
      .genres, row.id, name: LocalizedText(row.en, ["de": row.de, "fr": row.fr, "es": row.es, "ja": row.ja]),
      row.id == music
        ? [] : [Attribute("parentId", .fixed(.string(music))), Attribute("parentName", .text(names(of: music)))])
    item.genres = [row.id]
    return item
  }

  /// Returns the name of a genre.
  static func names(of id: String) -> LocalizedText {
    guard let row = rows.first(where: { $0.id == id }) else { return "Music" }
    return LocalizedText(row.en, ["de": row.de, "fr": row.fr, "es": row.es, "ja": row.ja])
  }

  private typealias Row = (id: String, en: String, de: String, fr: String, es: String, ja: String)

  private static let rows: [Row] = [
    ("34", "Music", "Musik", "Musique", "Música", "ミュージック"),
    ("20", "Alternative", "Alternative", "Alternative", "Alternativa", "オルタナティブ"),
    ("2", "Blues", "Blues", "Blues", "Blues", "ブルース"),
    ("5", "Classical", "Klassik", "Classique", "Clásica", "クラシック"),
    ("6", "Country", "Country", "Country", "Country", "カントリー"),
    ("17", "Dance", "Dance", "Dance", "Dance", "ダンス"),
    ("7", "Electronic", "Electronic", "Électronique", "Electrónica", "エレクトロニック"),
    ("18", "Hip-Hop/Rap", "Hip-Hop/Rap", "Hip-hop/Rap", "Hip-Hop/Rap", "ヒップホップ／ラップ"),
    ("11", "Jazz", "Jazz", "Jazz", "Jazz", "ジャズ"),
    ("14", "Pop", "Pop", "Pop", "Pop", "ポップ"),
    ("15", "R&B/Soul", "R&B/Soul", "R&B/Soul", "R&B/Soul", "R&B／ソウル"),
    ("24", "Reggae", "Reggae", "Reggae", "Reggae", "レゲエ"),
    ("21", "Rock", "Rock", "Rock", "Rock", "ロック"),
    ("10", "Singer/Songwriter", "Singer/Songwriter", "Auteur-compositeur", "Cantautores", "シンガーソングライター"),
    ("16", "Soundtrack", "Soundtrack", "Bandes originales", "Bandas sonoras", "サウンドトラック"),
  ]
}

/// The playlists, with lengths around the page sizes, and their curators.
enum PlaylistTable {
  struct Row: Sendable {
    let id: String
    let name: LocalizedText
    let count: Int
    let curator: ResourceKey
    var startsWithKhalid = false
    var hasVideo = false
  }

  private static let editors = ResourceKey(.appleCurators, "976439503")
  private static let listener = ResourceKey(.curators, "1000000001")

  /// The playlists; each identifier ends in its number of tracks.
  static let rows = [
    Row(
      id: "pl.00000000000000000000000000000250",
      name: LocalizedText("The Long List", ["de": "Die lange Liste", "fr": "La longue liste", "es": "La lista larga"]),
      count: 250, curator: editors),
    Row(id: "pl.00000000000000000000000000000101", name: "One Too Many", count: 101, curator: editors),
    Row(id: "pl.00000000000000000000000000000100", name: "Exactly One Page", count: 100, curator: editors),
    Row(
      id: "pl.00000000000000000000000000000024", name: "Khalid and Company", count: 20, curator: editors,
      startsWithKhalid: true, hasVideo: true),
    Row(id: "pl.00000000000000000000000000000012", name: "A Dozen", count: 12, curator: listener),
    Row(id: "pl.00000000000000000000000000000001", name: "Just the One", count: 1, curator: listener),
  ]

  static func item(_ row: Row) -> Item {
    var item = Item(
      .playlists, row.id, name: row.name,
      [
        Attribute("artwork", .artwork), Attribute("curatorName", .fixed(.string(curatorName(row.curator)))),
        Attribute(
          "description",
          .notes(
            LocalizedText(
              "A list for those who test what they build.", ["de": "Eine Liste für alle, die prüfen, was sie bauen."]))),
        Attribute("isChart", .fixed(false)), Attribute("lastModifiedDate", .fixed("2026-01-31T12:00:00Z")),
        Attribute("playParams", .playParams), Attribute("playlistType", .fixed("editorial")), Attribute("url", .page),
      ])
    item.alsoFoundBy = curatorName(row.curator)
    item.extended = [Attribute("trackTypes", .fixed(row.hasVideo ? ["songs", "music-videos"] : ["songs"]))]
    item.related["curator"] = [row.curator]
    return item
  }

  static let curators = [editors, listener].map { key in
    var item = Item(
      key.type, key.id, name: LocalizedText(curatorName(key)),
      [Attribute("artwork", .artwork), Attribute("kind", .fixed("Curator")), Attribute("url", .page)])
    item.related["playlists"] = rows.filter { $0.curator == key }.map { ResourceKey(.playlists, $0.id) }
    return item
  }

  private static func curatorName(_ key: ResourceKey) -> String {
    key == editors ? "Sandbox Editors" : "A Patient Listener"
  }
}
