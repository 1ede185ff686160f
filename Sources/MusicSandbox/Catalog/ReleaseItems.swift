/// The resources of one release.
struct ReleaseItems {
  private let release: Release
  private let genres: [ResourceKey]

  init(_ release: Release) {
    self.release = release
    genres = release.genres.map { ResourceKey(.genres, $0) }
  }

  var album: Item {
    var item = Item(
      .albums, release.id, name: LocalizedText(release.name),
      [
        Attribute("artistName", .fixed(.string(release.artistName))), Attribute("artwork", .artwork),
        Attribute("copyright", .fixed("℗ \(String(release.date.prefix(4))) \(release.label)")),
        Attribute("editorialNotes", .notes(release.notes)), Attribute("genreNames", .genreNames(release.genres)),
        Attribute("isCompilation", .fixed(false)), Attribute("isComplete", .fixed(true)),
        Attribute("isMasteredForItunes", .fixed(true)), Attribute("isSingle", .fixed(.bool(release.isSingle))),
        Attribute("playParams", .playParams), Attribute("recordLabel", .fixed(.string(release.label))),
        Attribute("releaseDate", .fixed(.string(release.date))),
        Attribute("trackCount", .fixed(.number(release.tracks.count))),
        Attribute("upc", .fixed(.string(release.upc))), Attribute("url", .page),
      ] + rating(release.tracks.contains(where: \.isExplicit)))
    item.extended = [artistURL, Attribute("audioVariants", .fixed(["lossless"]))]
    item.related = [
      "artists": [release.artist], "genres": genres, "tracks": release.tracks.map { ResourceKey(.songs, $0.id) },
    ]
    complete(&item, code: release.upc)
    return item
  }

  var songs: [Item] {
    release.tracks.enumerated().map { index, track in song(track, number: index + 1) }
  }

  private func song(_ track: Release.Track, number: Int) -> Item {
    var item = Item(
      .songs, track.id, name: LocalizedText(track.name),
      common(track) + [
        Attribute("albumName", .fixed(.string(release.name))), Attribute("artwork", .artworkOf(release.key)),
        Attribute("composerName", .fixed(.string(release.artistName))), Attribute("discNumber", .fixed(1)),
        Attribute("hasLyrics", .fixed(true)), Attribute("isAppleDigitalMaster", .fixed(true)),
        Attribute("previews", .fixed([])), Attribute("trackNumber", .fixed(.number(number))),
      ])
    item.extended = [artistURL, Attribute("audioVariants", .fixed(["lossless"]))]
    item.related = ["albums": [release.key], "artists": [release.artist], "genres": genres]
    if number == 1 { item.related["station"] = [ResourceKey(.stations, "ra.\(release.artist.id)")] }
    complete(&item, code: release.isrc(track))
    return item
  }

  /// The video of a song of this release.
  func video(of track: Release.Track, id: String) -> Item {
    var item = Item(
      .musicVideos, id, name: LocalizedText(track.name),
      common(track) + [
        Attribute("artwork", .artwork), Attribute("has4K", .fixed(false)), Attribute("hasHDR", .fixed(false)),
        Attribute("previews", .fixed([])),
      ])
    item.extended = [artistURL]
    item.related = [
      "albums": [release.key], "artists": [release.artist], "genres": genres,
      "songs": [ResourceKey(.songs, track.id)],
    ]
    complete(&item, code: nil)
    return item
  }

  private func common(_ track: Release.Track) -> [Attribute] {
    [
      Attribute("artistName", .fixed(.string(release.artistName))),
      Attribute("durationInMillis", .fixed(.number(track.milliseconds))),
      Attribute("genreNames", .genreNames(release.genres)),
      Attribute("isrc", .fixed(.string(release.isrc(track)))), Attribute("playParams", .playParams),
      Attribute("releaseDate", .fixed(.string(release.date))), Attribute("url", .page),
    ] + rating(track.isExplicit)
  }

  private func rating(_ isExplicit: Bool) -> [Attribute] {
    isExplicit ? [Attribute("contentRating", .fixed("explicit"))] : []
  }

  private var artistURL: Attribute {
    Attribute("artistUrl", .fixed("https://music.apple.com/us/artist/\(release.artist.id)"))
  }

  private func complete(_ item: inout Item, code: String?) {
    item.genres = release.genres
    item.storefronts = release.storefronts
    item.alsoFoundBy = release.artistName
    item.code = code
  }
}
