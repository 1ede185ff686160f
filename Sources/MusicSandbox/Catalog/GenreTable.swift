/// The genres with the identifiers that Apple gives them, and their names in five languages.
enum GenreTable {
  /// The genre of everything.
  static let music = "34"

  static let items: [Item] = rows.map { row in
    var item = Item(
      .genres, row.id, name: LocalizedText(row.en, ["de": row.de, "fr": row.fr, "es": row.es, "ja": row.ja]),
      row.id == music
        ? [] : [Attribute("parentId", .fixed(.string(music))), Attribute("parentName", .text(names(of: music)))])
    item.genres = [row.id]
    return item
  }

  /// The name of a genre.
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
