import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite struct UserTokenTests {
  private static let song = "/v1/catalog/us/songs/1"

  @Test(
    "with a music user token, a request for an element that is not known to be the same for all is the user's",
    arguments: [
      "relate=library", "include=library", "includeOnly=library", "include[songs]=library",
      "include%5Bsongs%5D=library", "extend=inFavorites",
      "include=artists&relate=library", "include=artists,library", "include=artists%2Clibrary", "include=library,",
      "include=artists%2clibrary", "include=artists,%20library", "include=artists,+library+", "include=,,library",
      "inc%6Cude=libra%72y", "%69%6E%63%6C%75%64%65=%6C%69%62%72%61%72%79", "include%5bsongs]=l%69brary",
      "include=artists&include=library", "include=library&include=artists", "INCLUDE=library", "Include[songs]=library",
      "include=Library", "include=library.artists", "include%255Bsongs%255D=library", "include=%256Cibrary",
      "extend=artistUrl,inFavorites", "extend[songs]=inLibrary", "fields=name,inFavorites", "fields[songs]=inLibrary",
      "fields=inFavorites", "views=recently-played", "with=library", "relate[albums]=library", "include=lyrics",
      "filter[identity]=personal", "filter%5Bidentity%5D=personal", "filter[identity]=apple", "filter[favorite]=true",
      "f%69lter[identity]=x", "filter[songs][identity]=x", "filter=personal", "include=anything-new", "term=a&with=x",
      "include=artists=library", "+include=library", "%20include=library", "include.songs=library",
    ])
  func wanted(query: String) throws {
    let target = try CatalogTarget("\(Self.song)?\(query)")
    #expect(target.wantsUserToken && !target.isStorable)
    #expect(throws: TargetRefusal.userTokensDisabled) { try CatalogTarget("\(Self.song)?\(query)", allowsMe: false) }
    let withoutToken = try CatalogTarget("\(Self.song)?\(query)", allowsMe: false, hasUserToken: false)
    #expect(!withoutToken.wantsUserToken && withoutToken.isStorable && withoutToken.asksForUser)
  }

  @Test(
    "a request for what is the same for all users, or with text, is shared even with a music user token",
    arguments: [
      "", "include=artists,albums", "include[songs]=artists&include=genres", "include=", "include", "include=,%2C,+",
      "extend=artistUrl,editorialVideo", "fields[songs]=name,artistName", "fields=albumName%2Curl", "relate=albums",
      "views=top-songs,similar-artists", "with=topResults", "with=cityCharts,dailyGlobalTopCharts", "ids=library",
      "filter[isrc]=library", "filter[equivalents]=1", "filter%5Bupc%5D=personal", "filter[storefront-chart]=us",
      "term=library", "term=include=library", "term=a%26include=library", "x;include=library", "name=library",
      "included=library", "x-include=library", "includelibrary", "ids=1,2&l=de&limit=5&offset=10&types=songs",
      "l=library", "chart=library", "types=library-songs", "include%3Dlibrary", "%2569nclude=library", "q=inFavorites",
    ])
  func unwanted(query: String) throws {
    let target = try CatalogTarget("\(Self.song)?\(query)", allowsMe: false)
    #expect(!target.wantsUserToken && target.isStorable && !target.asksForUser)
  }

  @Test(
    "with a music user token, a path with a segment that is not known to be the same for all is the user's",
    arguments: [
      ("albums/1/library", true), ("albums/1/libr%61ry", true), ("songs/1/library/", true), ("albums/1/Library", true),
      ("albums/1/tracks/library", true), ("artists/1/view/for-you", true), ("songs/1/lyrics", true),
      ("songs/1/relationships/library", true), ("library", true), ("search/library", true), ("songs/1/new", true),
      ("albums/library", false), ("playlists/pl.u-inFavorites", false), ("albums/1/tracks", false),
      ("artists/1/view/top-songs", false), ("search/suggestions", false), ("charts", false), ("", false),
      ("station-genres/1/stations", false), ("songs/1/%61rtists/", false),
    ])
  func paths(path: String, isUsers: Bool) throws {
    let target = try CatalogTarget("/v1/catalog/us/\(path)")
    #expect(target.wantsUserToken == isUsers && target.isStorable == !isUsers)
    #expect(try !CatalogTarget("/v1/catalog/us/\(path)", hasUserToken: false).wantsUserToken)
  }

  @Test("requests below /v1/me are always the user's, and those to /v1/test never")
  func kinds() throws {
    #expect(try CatalogTarget("/v1/me/storefront", hasUserToken: false).wantsUserToken)
    #expect(try CatalogTarget("/v1/storefronts?include=library").wantsUserToken)
    #expect(try !CatalogTarget("/v1/storefronts/us").wantsUserToken)
    #expect(try !CatalogTarget("/v1/test?relate=library").wantsUserToken)
  }

  @Test("a request for something of a user's is not allowed where /v1/me is off, with a sentence and 404")
  func disabled() {
    let response = TargetRefusal.userTokensDisabled.response
    #expect(response.code == .notPermitted && response.status == .notFound)
    #expect(response.detail.contains("catalog.me") && response.detail.contains("Leave the token out"))
  }

  @Test("a user's response is forwarded with the token, and neither stored nor shared")
  func alone() async throws {
    let fresh: FieldLines = [.contentType: "application/json", .cacheControl: "max-age=60"]
    let ground = ProxyGround { .scripted(.ok, fresh, $0.fields.text(of: "music-user-token") ?? "-") }
    for target in ["\(Self.song)?include=library", "\(Self.song)/library", "\(Self.song)?fields=inFavorites"] {
      let count = ground.upstream.requests.count
      for user in [nil, "A", "B", "A", nil] {
        let reply = try await ground.ask(target, user: user)
        guard case .response(let response) = reply else {
          Issue.record("\(reply)")
          continue
        }
        #expect((response.encoded.fields[.cacheControl] == "no-store") == (user != nil))
        #expect(reply.cacheStatus?.contains("bypass") == (user != nil))
      }
      let sent = ground.upstream.requests.dropFirst(count).map { $0.fields.text(of: "music-user-token") }
      #expect(sent == [nil, "A", "B", "A"], "the second request without a token is a hit")
    }
  }

  @Test("in the circuit, a personal resource is separate for each user, client and method")
  func circuitSubject() throws {
    let ground = ProxyGround { _ in .scripted() }
    let song = "/v1/catalog/us/songs/1"
    func resource(
      _ target: String, _ user: String?, by client: String = "a", _ method: HTTPRequest.Method = .get
    ) throws -> UInt64 {
      CircuitSubject(try ground.call(target, user: user, method: method), for: .only(client)).resource
    }
    #expect(try resource(song, nil) == resource(song, nil, by: "b"))
    let me = "/v1/me/library/songs"
    let own = try resource(me, "one")
    #expect(try own == resource(me, "one"))
    #expect(try own != resource(me, "two"))
    #expect(try own != resource(me, "one", by: "b"))
    #expect(try own != resource(me, "one", .post))
    #expect(try resource("\(song)?relate=library", "one") != resource("\(song)?relate=library", "two"))
  }
}
