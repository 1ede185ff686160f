import Bytes

/// The endpoint `/v1/me/…`, for requests with a valid music user token.
struct MeEndpoint {
  /// The storefront of every user of the emulator.
  private static let storefront = "us"
  /// The identifier of the only recommendation.
  private static let recommendation = "6-27s5hU6azhJY"

  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place
  private let segments: [String]
  private let now: Int

  /// Creates the endpoint. Throws 403 with code 40300 without a valid music user token, before any other check.
  init(_ request: APIRequest, now: Int) throws(AppleError) {
    self.request = request
    self.now = now
    library = try request.library()
    place = try request.place(Self.storefront)
    segments = Array(request.segments.dropFirst())
  }

  func respond() throws(AppleError) -> SandboxResponse {
    switch (segments.first, segments.dropFirst().first) {
    case ("storefront", nil): return try get(["data": [place.storefront.document]])
    case ("library", _): return try LibraryEndpoint(request, library, place, now: now).respond()
    case ("ratings", _): return try RatingsEndpoint(request, library, place).respond()
    case ("recent", "played"), ("history", "heavy-rotation"), ("recent", "radio-stations"):
      return try recent()
    case ("recommendations", _): return try get(recommendations())
    default: throw .pathNotFound
    }
  }

  private func get(_ document: @autoclosure () throws(AppleError) -> Document) throws(AppleError) -> SandboxResponse {
    try request.require("GET", "HEAD")
    return .json(try document())
  }

  /// Returns albums, or songs for `/tracks`: at most ten at a time for albums, as at Apple.
  private func recent() throws(AppleError) -> SandboxResponse {
    let type: ResourceType
    switch segments.dropFirst(2).first {
    case nil: type = segments[1] == "radio-stations" ? .stations : .albums
    case "tracks" where segments.count == 3: type = .songs
    default: throw .pathNotFound
    }
    let all = Array(place.catalog.all(type, in: place.storefront.id).prefix(50))
    let paging = try Paging(request.query, standard: 10, maximum: type == .songs ? 30 : 10)
    let writer = ResourceWriter(place: place, selection: try Selection(request.query, for: [type]))
    let path = "/v1/me/" + segments.joined(separator: "/")
    return try get(
      .object([
        ("next", place.next(path, paging, count: all.count)),
        ("data", try writer.resources(paging.page(of: all), depth: 1)),
      ]))
  }

  /// Returns the list with the only recommendation, that recommendation, or its contents.
  private func recommendations() throws(AppleError) -> Document {
    let rest = segments.dropFirst()
    guard rest.first == nil || rest.first == Self.recommendation else { throw .resourceNotFound }
    let playlists = Array(place.catalog.all(.playlists, in: place.storefront.id).prefix(3))
    let path = "/v1/me/recommendations/\(Self.recommendation)"
    switch (rest.count, rest.last) {
    case (0...1, _): return ["data": [try recommendation(path, playlists)]]
    case (2, "contents"):
      let writer = ResourceWriter(place: place, selection: try Selection(request.query, for: [.playlists]))
      let paging = try Paging(request.query, standard: 10, maximum: 30)
      return .object([
        ("next", place.next("\(path)/contents", paging, count: playlists.count)),
        ("data", try writer.resources(paging.page(of: playlists))),
      ])
    case (2, let name?): throw .relationshipNotFound(name)
    default: throw .pathNotFound
    }
  }

  private func recommendation(_ path: String, _ playlists: [Item]) throws(AppleError) -> Document {
    let writer = ResourceWriter(place: place, selection: .standard)
    return [
      "id": .string(Self.recommendation), "type": "personal-recommendation", "href": .string(path),
      "attributes": [
        "isGroupRecommendation": false, "kind": "music-recommendations",
        "nextUpdateDate": .string(CivilTime(secondsSinceEpoch: now + 86_400).description),
        "resourceTypes": ["playlists"],
        "title": ["stringForDisplay": "Made for Testers"],
      ],
      "relationships": [
        "contents": [
          "href": .string("\(path)/contents"), "data": try writer.resources(playlists, depth: 1),
        ]
      ],
    ]
  }
}
