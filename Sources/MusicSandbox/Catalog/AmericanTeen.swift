/// The album that Apple's talk on MusicKit uses as its example, with the identifiers that the slides show.
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

  /// The first two are on a slide; the others are made up in their manner.
  private static let ids = ["1200868616", "1200868874"] + (0..<rows.count - 2).map { "\(1_200_869_001 + $0 * 7)" }

  /// Name, seconds, explicit.
  private static let rows: [(String, Int, Bool)] = [
    ("American Teen", 250, false), ("Young Dumb & Broke", 202, false), ("Location", 219, false),
    ("Another Sad Love Song", 244, false), ("Saved", 206, true), ("Coaster", 199, false), ("8TEEN", 228, true),
    ("Let's Go", 204, true), ("Hopeless", 167, true), ("Cold Blooded", 207, false), ("Winter", 241, false),
    ("Therapy", 257, false), ("Keep Me", 274, false), ("Shot Down", 207, false), ("Angels", 170, false),
  ]
}
