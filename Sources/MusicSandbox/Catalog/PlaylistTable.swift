/// Playlists of the sizes at which paging goes wrong, and who made them.
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

  /// The identifiers end in how many tracks there are.
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
