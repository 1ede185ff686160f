import Bytes
import JSON
import TestSupport
import Testing

@testable import MusicSandbox

/// The requests of Apple's talks, of which each is a row of `docs/talks.csv`: talk, line of its text, request.
@Suite struct TalkTests {
  private static let requests = {
    let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
    let rows = (try? TextFile.read("\(root)/docs/talks.csv"))?.split(separator: "\n").dropFirst() ?? []
    return rows.compactMap { row in
      row.split(separator: ",", maxSplits: 2).last?.filter { $0 != "\"" }
    }
  }()

  @Test("the table names each request once")
  func table() {
    #expect(Self.requests.count >= 49)
    #expect(Set(Self.requests).count == Self.requests.count)
  }

  @Test("the emulator answers the request of a talk with resources", arguments: requests)
  func request(line: String) throws {
    if line.hasPrefix("POST ") {
      let (target, name) = (String(line.dropFirst(5)), #"{"attributes":{"name":"New"}}"#)
      let status = try Ground().respond(target, "POST", user: Ground.userToken, content: name).status
      #expect((200..<300).contains(status))
    } else {
      let response = try Ground().json(line, user: Ground.userToken)
      #expect(response["data"]?.elements.isEmpty == false || response["results"]?.members.isEmpty == false)
    }
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
