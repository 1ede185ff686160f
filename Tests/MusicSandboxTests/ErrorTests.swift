import Bytes
import JSON
import Testing

@testable import MusicSandbox

/// The requests that the emulator refuses, and its error objects.
@Suite struct ErrorTests {
  struct Refused: Sendable, CustomTestStringConvertible {
    let target: String
    let status: Int
    let code: String
    let parameter: String?
    var testDescription: String { target }

    init(_ target: String, _ status: Int, _ code: String, _ parameter: String? = nil) {
      (self.target, self.status, self.code, self.parameter) = (target, status, code, parameter)
    }
  }

  @Test(
    "a request that Apple refuses gets an error object",
    arguments: [
      Refused("/v1/catalog/us/albums/1", 404, "40400"),
      Refused("/v1/catalog/us/albums/9000040000", 404, "40400"),
      Refused("/v1/catalog/us/albums/1200868601/nonsense", 400, "40008"),
      Refused("/v1/catalog/us/albums/1200868601/view/nonsense", 400, "40008"),
      Refused("/v1/catalog/us/albums/1200868601/tracks?offset=15", 404, "40403"),
      Refused("/v1/catalog/us/albums/1200868601/tracks/1", 404, "40400"),
      Refused("/v1/catalog/us/nonsense/1", 400, "40008"),
      Refused("/v1/catalog/xx/albums/1200868601", 400, "40008"),
      Refused("/v1/catalog/USA/albums/1200868601", 400, "40008"),
      Refused("/v1/catalog", 404, "40400"),
      Refused("/v1/catalog/us", 400, "40003", "ids"),
      Refused("/v1/catalog/us/albums", 400, "40003", "ids"),
      Refused("/v1/catalog/us/albums?ids=", 400, "40005", "ids"),
      Refused("/v1/catalog/us/artists?ids=" + String(repeating: "1,", count: 26), 400, "40005", "ids"),
      Refused("/v1/catalog/us?ids[nonsense]=1", 400, "40004", "ids[nonsense]"),
      Refused("/v1/catalog/us/albums/1200868601?l=invalid-XX", 400, "40005", "l"),
      Refused("/v1/catalog/us/albums/1200868601?limit[tracks]=301", 400, "40005", "limit[tracks]"),
      Refused("/v1/catalog/us/albums/1200868601/tracks?limit=0", 400, "40005", "limit"),
      Refused("/v1/catalog/us/albums/1200868601/tracks?limit=301", 400, "40005", "limit"),
      Refused("/v1/catalog/us/albums/1200868601/tracks?limit=two", 400, "40005", "limit"),
      Refused("/v1/catalog/us/albums/1200868601/tracks?offset=-1", 400, "40005", "offset"),
      Refused("/v1/catalog/us/albums/1200868601?nonsense=1", 400, "40004", "nonsense"),
      Refused("/v1/catalog/us/albums/1200868601?l=%zz", 400, "40005", "l"),
      Refused("/v1/catalog/us/albums?filter[isrc]=1", 400, "40004", "filter[isrc]"),
      Refused("/v1/catalog/us/search", 400, "40003", "term"),
      Refused("/v1/catalog/us/search?term=", 400, "40005", "term"),
      Refused("/v1/catalog/us/search?term=a&types=genres", 400, "40005", "types"),
      Refused("/v1/catalog/us/search?term=a&limit=26", 400, "40005", "limit"),
      Refused("/v1/catalog/us/search/nonsense?term=a", 404, "40400"),
      Refused("/v1/catalog/us/search/suggestions?term=a", 400, "40003", "kinds"),
      Refused("/v1/catalog/us/charts", 400, "40003", "types"),
      Refused("/v1/catalog/us/charts?types=artists", 400, "40005", "types"),
      Refused("/v1/catalog/us/charts?types=songs&limit=51", 400, "40005", "limit"),
      Refused("/v1/catalog/us/charts?types=songs&offset=206", 400, "40005", "offset"),
      Refused("/v1/catalog/us/charts?types=songs&genre=99", 400, "40005", "genre"),
      Refused("/v1/storefronts/xx", 404, "40400"),
      Refused("/v1/language/us/tag", 400, "40003", "acceptLanguage"),
      Refused("/v1/language/xx/tag?acceptLanguage=en", 400, "40008"),
      Refused("/v1/nonsense", 404, "40400"),
      Refused("/v2/catalog/us/albums/1200868601", 404, "40400"),
      Refused("/v1/catalog/us/songs/1200868616/lyrics", 400, "40012"),
      Refused("/v1/catalog/us/albums/1200868601//", 400, "40008"),
      Refused("/v1/catalog/us/storefronts/us", 400, "40008"),
      Refused("/v1/catalog/us/library-songs/i.1200868616", 400, "40008"),
      Refused("/v1/catalog/us/songs/1200868616?include=library", 403, "40300"),
      Refused("/v1/catalog/us/songs/1200868616?include[songs]=library", 403, "40300"),
      Refused("/v1/catalog/us/songs/1200868616?extend=inFavorites", 403, "40300"),
      Refused("/v1/catalog/us/songs/1200868616?fields[songs]=name,inLibrary", 403, "40300"),
      Refused("/v1/catalog/us/songs/1200868616/library", 403, "40300"),
      Refused("/v1/catalog/us/stations?filter[identity]=personal", 403, "40300"),
      Refused("/v1//catalog/us/albums/1200868601", 404, "40400"),
      Refused("/v1/catalog/us/albums%2F1200868601", 404, "40400"),
      Refused("/v1/catalog/us/albums/%", 404, "40400"),
      Refused("/v1/me/storefront", 403, "40300"),
      Refused("/v1/catalog/us/albums/1200868601?relate=library", 403, "40300"),
      Refused("/v1/catalog/us/albums?ids=1200868601&filter[identity]=personal", 403, "40300"),
    ])
  func refused(refused: Refused) throws {
    let response = try Ground().respond(refused.target)
    #expect(response.status == refused.status)
    let error = try #require(try response.json.at("errors.0"))
    #expect(error["code"] == .string(ByteString(refused.code)))
    #expect(error["status"] == .string("\(refused.status)"))
    #expect(error["id"]?.text?.utf8.count == 26)
    #expect(error["title"]?.text?.isEmpty == false && error["detail"]?.text?.isEmpty == false)
    #expect(error.at("source.parameter")?.text == refused.parameter)
  }

  @Test("a too large limit gets the error message recorded from Apple's API")
  func words() throws {
    let error = try Ground().respond("/v1/catalog/us/search?term=a&limit=50").json.at("errors.0")
    #expect(error?["title"] == .string("Invalid Parameter Value"))
    #expect(error?["detail"] == .string("Value must be an integer less than or equal to 25, but was: 50"))
  }

  @Test("the catalog refuses writing methods with 405 and Allow")
  func method() throws {
    let ground = try Ground()
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
      let response = ground.respond("/v1/catalog/us/albums/1200868601", method)
      #expect(response.status == 405)
      #expect(response.fields.single("allow") == "GET, HEAD")
    }
    #expect(ground.respond("/v1/catalog/us/albums/1200868601", "HEAD").status == 200)
    #expect(ground.sandbox.respond(SandboxRequest("OPTIONS", "/v1/catalog/us/albums/1")).status == 200)
  }

  @Test("every token over its team's rate gets 429 with an undocumented body and no Retry-After")
  func rate() throws {
    let ground = try Ground { $0.limit = RequestLimit("bucket:2/1s,burst=3") }
    #expect((0..<5).map { _ in ground.respond("/v1/test").status } == [200, 200, 200, 429, 429])
    let response = ground.respond("/v1/test")
    #expect(String(decoding: response.content, as: UTF8.self) == #"{"message":"API capacity exceeded"}"#)
    #expect(response.fields.values(of: "retry-after").isEmpty)
    ground.clock.advance(milliseconds: 499)
    #expect(ground.respond("/v1/test").status == 429)
    ground.clock.advance(milliseconds: 1)
    #expect((0..<2).map { _ in ground.respond("/v1/test").status } == [200, 429])
    ground.clock.advance(milliseconds: 3_600_000)
    #expect((0..<4).map { _ in ground.respond("/v1/test").status } == [200, 200, 200, 429])
  }

  @Test("a request without a valid token does not count towards the team's rate")
  func rateOfStrangers() throws {
    let ground = try Ground { $0.limit = RequestLimit("bucket:1/1s,burst=1") }
    for _ in 0..<3 { _ = ground.respond("/v1/test", fields: [field("Authorization", "Bearer x")]) }
    #expect(ground.respond("/v1/test").status == 200)
  }
}
