/// Describes what is in a library: like the catalog's resources, with identifiers, types and play parameters of its own.
struct LibraryWriter {
  let place: Place

  /// What library resources are called, and what their identifiers begin with.
  static func prefix(_ type: ResourceType) -> String? {
    switch type {
    case .albums: "l."
    case .artists: "r."
    case .songs, .musicVideos: "i."
    case .playlists: "p."
    default: nil
    }
  }

  /// The attributes that library resources share with those of the catalog.
  private static let shared: Set<String> = [
    "albumName", "artistName", "artwork", "contentRating", "discNumber", "durationInMillis", "genreNames", "hasLyrics",
    "name", "releaseDate", "trackCount", "trackNumber",
  ]

  /// A resource of the catalog, as it is in the library.
  func resource(_ item: Item) -> Document {
    let type = item.key.type
    let id = (Self.prefix(type) ?? "") + item.key.id
    let writer = ResourceWriter(place: place, selection: .standard)
    var attributes = writer.attributes(item).members.filter { Self.shared.contains($0.name) }
    if type == .artists { attributes = attributes.filter { $0.name == "name" } }
    if let kind = type.playKind {
      attributes.append(
        .init(
          name: "playParams",
          value: [
            "id": .string(id), "kind": .string(kind), "isLibrary": true, "catalogId": .string(item.key.id),
          ]))
      attributes.append(.init(name: "dateAdded", value: "2025-01-01T00:00:00Z"))
    }
    return [
      "id": .string(id), "type": .string("library-\(type.rawValue)"),
      "href": .string("/v1/me/library/\(type.rawValue)/\(id)"), "attributes": .object(attributes),
    ]
  }

  /// A playlist of the user's own.
  func playlist(_ playlist: UserLibrary.Playlist) -> Document {
    .object([
      ("id", .string(playlist.id)), ("type", "library-playlists"),
      ("href", .string("/v1/me/library/playlists/\(playlist.id)")),
      (
        "attributes",
        .object([
          ("canEdit", true), ("dateAdded", .string(RFC3339.text(playlist.added))),
          ("description", playlist.description.map { ["standard": .string($0)] }), ("hasCatalog", false),
          ("isPublic", false), ("name", .string(playlist.name)),
          ("playParams", ["id": .string(playlist.id), "kind": "playlist", "isLibrary": true]),
        ])
      ),
    ])
  }
}
