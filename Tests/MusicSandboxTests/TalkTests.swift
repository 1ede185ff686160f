import Bytes
import JSON
import TestSupport
import Testing

@testable import MusicSandbox

/// The requests of Apple's talks.
@Suite struct TalkTests {
  private static let requests =
    introduction + meetTheAPI + ["/v1/catalog/us/genres"]  // the last one: “Meet MusicKit for Swift” (WWDC21)

  /// “Introducing MusicKit” (WWDC17): the slides, then what is said.
  private static let introduction = [
    "/v1/catalog/us/albums/1200868601",
    "/v1/catalog/us/songs/548392190",
    "/v1/catalog/us/songs/548392191",
    "/v1/catalog/us/artists/82842423",
    "/v1/catalog/us/albums/1200868601/artists",
    "/v1/catalog/us/albums/1200868601?include=artists",
    "/v1/catalog/us/albums/1200868601?include=artists,genres",
    "/v1/catalog/us/genres/14",
    "/v1/catalog/us/genres/34",
    "/v1/catalog/us/albums/1200868601/genres",
    "/v1/catalog/us/albums/1200868601/tracks",
    "/v1/catalog/us/albums/1200868601/tracks?limit=2",
    "/v1/catalog/us/albums/1200868601/tracks?offset=2",
    "/v1/catalog/us/albums/1200868601/tracks?offset=2&limit=2",
    "/v1/catalog/us/albums/1200868601/tracks?offset=4",
    "/v1/catalog/us/songs/1200868616",
    "/v1/catalog/us/songs/1200868874",
    "/v1/catalog/us/search?term=khalid",
    "/v1/catalog/us/search?term=khalid&types=albums",
    "/v1/me/recent/played",
    "/v1/catalog/us/charts?types=songs",
    "/v1/me/history/heavy-rotation",
    "/v1/me/recommendations",
    "/v1/me/storefront",
  ]

  /// “Meet Apple Music API and MusicKit” (WWDC22).
  private static let meetTheAPI = [
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250",
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250?l=en-US",
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250?l=es-MX",
    "/v1/storefronts",
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250?extend=trackTypes",
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250?include=curator",
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250/tracks?offset=100",
    "/v1/catalog/us/playlists/pl.00000000000000000000000000000250/tracks?offset=100&limit=50",
    "/v1/catalog/us/search?term=pop&types=albums,songs",
    "/v1/catalog/us/search?term=pop&types=albums,songs&limit=1",
    "/v1/catalog/us/search?offset=1&term=pop&types=songs",
    "/v1/me/library/search?term=khalid&types=library-songs",
  ]

  @Test("the list names each request once")
  func table() {
    #expect(Self.requests.count >= 37)
    #expect(
      Self.requests.count == Self.requests.enumerated().count { !Self.requests[..<$0.offset].contains($0.element) })
  }

  @Test("the emulator answers the request of a talk with resources", arguments: requests)
  func request(target: String) throws {
    let response = try Ground().json(target, user: Ground.userToken)
    #expect(response["data"]?.elements.isEmpty == false || response["results"]?.members.isEmpty == false)
  }

  @Test("the responses are those on the slides")
  func slides() throws {
    let ground = try Ground()
    let tracks = try ground.json("/v1/catalog/us/albums/1200868601/tracks?limit=2")
    #expect(tracks.ids == ["1200868616", "1200868874"])
    #expect(tracks["next"] == "/v1/catalog/us/albums/1200868601/tracks?offset=2")
    #expect(tracks.at("data.0.relationships") != nil)
    let next = try ground.json("/v1/catalog/us/albums/1200868601/tracks?offset=2&limit=2")
    #expect(next["next"] == "/v1/catalog/us/albums/1200868601/tracks?offset=4")
    let search = try ground.json("/v1/catalog/us/search?term=khalid")
    let groups = search["results"]?.members.map(\.name.text) ?? []
    for name in ["albums", "artists", "songs", "playlists"] { #expect(groups.contains(name)) }
  }
}
