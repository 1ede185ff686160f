import TestSupport
import Testing

@testable import CatalogProxy

@Suite struct CacheKeyTests {
  @Test(
    "targets that certainly mean the same have one cache key",
    arguments: [
      ("/v1/catalog/us/search?term=a&types=albums", "/v1/catalog/us/search?types=albums&term=a"),
      ("/v1/catalog/us?ids[songs]=1&ids[albums]=2", "/v1/catalog/us?ids%5balbums%5D=2&ids%5Bsongs]=1"),
      ("/v1/catalog/us/search?term=%7euser", "/v1/catalog/us/search?term=~user"),
      ("/v1/catalog/us/search?term=%c3%a4", "/v1/catalog/us/search?term=%C3%A4"),
      ("/v1/catalog/us/search?%74erm=a&l=de", "/v1/catalog/us/search?l=de&term=a"),
      ("/v1/catalog/us/search?term={a|b}", "/v1/catalog/us/search?term=%7Ba%7cb%7D"),
      ("/v1/c%61talog/us/albums/1", "/v1/catalog/us/albums/1"), ("/v1/catalog/US/albums/1/", "/v1/catalog/us/albums/1"),
      ("/v1/catalog/us/search?term=<\">", "/v1/catalog/us/search?term=%3c%22%3E"),
      ("/v1/catalog/us?a=1&a=2&b=3", "/v1/catalog/us?b=3&a=1&a=2"),
    ])
  func same(left: String, right: String) throws {
    #expect(try CatalogTarget(left).cacheKey == CatalogTarget(right).cacheKey)
  }

  @Test(
    "targets that could differ in meaning have different cache keys",
    arguments: [
      ("?a=1&a=2", "?a=2&a=1"), ("?a=1,2", "?a=2,1"), ("?a=1,2", "?a=1%2C2"), ("?term=a+b", "?term=a%20b"),
      ("?term=a%2Bb", "?term=a+b"), ("?a", "?a="), ("?", ""), ("?a=1", "?a=1&"), ("?a=1", "?A=1"), ("?a=b", "?a=B"),
      ("?a=1;b=2&c=3", "?c=3&a=1;b=2"), ("?a=1&&b=2", "?a=1&b=2"), ("?a=1&=2", "?=2&a=1"), ("?a%26b=1", "?a&b=1"),
      ("?a%3D1", "?a=1"), ("?term=%2525", "?term=%25"), ("?a!=1&b=2", "?b=2&a!=1"), ("?term=%252C", "?term=%2C"),
    ])
  func different(left: String, right: String) throws {
    let path = "/v1/catalog/us/search"
    #expect(try CatalogTarget(path + left).cacheKey != CatalogTarget(path + right).cacheKey)
  }

  @Test("a cache key is sorted by parameter name and keeps unknown parameters")
  func normalForm() throws {
    let target = try CatalogTarget("/v1/catalog/us/search?types=albums,songs&term=a+b%2f&limit=5&filter[x]=%6a")
    #expect(target.keyText == "/v1/catalog/us/search?filter%5Bx%5D=j&limit=5&term=a+b%2F&types=albums,songs")
  }

  @Test("every order of parameters has one cache key, and the key of a cache key is itself")
  func orders() throws {
    var random = SplitMix(seed: 1)
    let parameters = ["term=a+b", "types=songs", "l=de-DE", "ids[songs]=1,2", "limit=5", "with=x", "offset=10"]
    let expected = try CatalogTarget("/v1/catalog/us/search?" + parameters.joined(separator: "&")).cacheKey
    for _ in 0..<200 {
      let query = parameters.shuffled(using: &random).joined(separator: "&")
      let target = try CatalogTarget("/v1/catalog/us/search?" + query)
      #expect(target.cacheKey == expected)
      #expect(try CatalogTarget(target.cacheKey).cacheKey == expected)
    }
  }
}
