/// Invented artists that provide enough data for paging. Some names are hard to read, quote and store, to test clients.
enum FictionalArtists {
  /// Name and genre; the place in the list makes the identifiers, so new ones go to the end.
  static let rows: [(name: String, genre: String)] = [
    ("The Loopback Four", "21"), ("Ada Portrange", "14"), ("Null & the Pointers", "20"), ("Big Endian", "18"),
    ("Little Endian", "15"), ("The Idle Connections", "11"), ("Mutex Marlene", "10"), ("Kernel Choir", "5"),
    ("DJ Localhost", "17"), ("Race Condition", "7"), ("Les Octets Égarés", "14"), ("Die Warteschlange", "7"),
    ("Señor Desbordamiento", "24"), ("偽のアーティスト", "14"), ("AC/Slash", "21"), ("“Quote” Unquote", "2"),
    ("Emoji 🎷 Orchestra", "11"), ("100% Cotton+Wool", "6"), ("The Half-Open Sockets", "20"),
    ("Stale & Revalidated", "16"),
  ]

  /// Albums that an artist has, the last of them a single.
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
