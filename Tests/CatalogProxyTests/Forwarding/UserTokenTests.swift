import HTTPTypes
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite struct UserTokenTests {
  @Test(
    "a catalog request for user data needs the music user token",
    arguments: [
      "relate=library", "include=artists&relate=library", "relate=albums&relate=library", "relate=albums,library",
      "relate=albums%2Clibrary", "relate=albums,%20library", "%72elate=library", "relate=%6Cibrary",
      "relate[songs]=library", "relate%5Bsongs%5D=library", "relate%5bsongs%5d=l%69brary",
      "filter[identity]=personal", "filter%5Bidentity%5D=personal", "filter%5bidentity]=personal",
      "f%69lter[identity]=x&filter[identity]=%70ersonal", "filter[identity]=other,personal",
    ])
  func wanted(query: String) throws {
    let target = try CatalogTarget("/v1/catalog/us/playlists?\(query)")
    #expect(target.wantsUserToken && target.forwardsUserToken && !target.isStorable)
    let withoutMe = try CatalogTarget("/v1/catalog/us/playlists?\(query)", allowsMe: false)
    #expect(withoutMe.wantsUserToken && !withoutMe.forwardsUserToken && !withoutMe.isStorable)
  }

  @Test(
    "a catalog request that only resembles a request for user data does not need the music user token",
    arguments: [
      "relate", "relate=", "relate=albums", "related=library", "relate=libraryx", "term=relate=library",
      "term=a%26relate=library", "x;relate=library", "Relate=library", "relate%3Dlibrary", "%2572elate=library",
      "filter[identity]=apple", "filter[identity]", "filter=personal", "filter[isrc]=personal", "",
    ])
  func unwanted(query: String) throws {
    let target = try CatalogTarget("/v1/catalog/us/playlists?\(query)")
    #expect(!target.wantsUserToken && !target.forwardsUserToken && target.isStorable)
  }

  @Test(
    "a list may end with a separator, in any spelling, or have one more character",
    arguments: ["relate", "filter[identity]"])
  func ends(name: String) throws {
    let element = name == "relate" ? "library" : "personal"
    for separator in [",", "+", "%2C", "%2c", "%20", "%2", "%2D", "%", "%2C%20", "%20%2C", "%2C%2C"] {
      for end in ["", "a", "C", "0", "2", "%", "%2", "%2C", "ab"] {
        for value in [element + separator + end, separator + end, "x" + separator + end] {
          guard let target = try? CatalogTarget("/v1/catalog/us/playlists?\(name)=\(value)") else { continue }
          let parts = value.replacing("%2C", with: ",").replacing("%2c", with: ",").replacing("%20", with: "")
            .replacing("+", with: "").split(separator: ",")
          #expect(target.wantsUserToken == parts.contains { $0 == element }, "\(value)")
        }
      }
    }
  }

  @Test("requests below /v1/me forward the music user token, and storefront and test requests do not")
  func kinds() throws {
    #expect(try CatalogTarget("/v1/me/storefront").forwardsUserToken)
    #expect(try !CatalogTarget("/v1/storefronts?relate=library").forwardsUserToken)
    #expect(try !CatalogTarget("/v1/test?relate=library").forwardsUserToken)
  }

  @Test("in the circuit, a personal resource is separate for each user, client and method")
  func circuitSubject() throws {
    let ground = ProxyGround { _ in .scripted() }
    let song = "/v1/catalog/us/songs/1"
    func resource(
      _ target: String, _ user: String?, by client: String = "a", _ method: HTTPRequest.Method = .get
    ) throws -> UInt64 {
      CircuitSubject(try ground.call(target, by: client, user: user, method: method)).resource
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
