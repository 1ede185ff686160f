import Testing

@testable import Access

@Suite struct APIKeyringTests {
  private static func ring(_ keys: [(key: String, client: Int)]) throws -> APIKeyring {
    var ring = APIKeyring()
    for (key, client) in keys {
      let owner = ring.add(try APIKeyDigestTests.digest(of: key), for: client)
      #expect(owner == nil, "\(key)")
    }
    return ring
  }

  @Test("a keyring finds the client of each of its keys, several keys of one client included")
  func several() throws {
    let ring = try Self.ring([("old", 0), ("new", 0), ("other", 1)])
    #expect(ring.count == 3)
    for (key, client) in [("old", 0), ("new", 0), ("other", 1)] {
      #expect(ring.client(presenting: Array(key.utf8).span) == client, "\(key)")
      #expect(ring.client(for: try APIKeyDigestTests.digest(of: key)) == client, "\(key)")
    }
  }

  @Test(
    "a keyring finds no client for text that differs from its keys in any byte",
    arguments: ["", "ol", "old ", "Old", "old\n", "\0"])
  func strangers(key: String) throws {
    #expect(try Self.ring([("old", 0)]).client(presenting: Array(key.utf8).span) == nil)
  }

  @Test("a keyring finds no client for the SHA-256 of a key, which may have leaked with the configuration")
  func leakedDigest() throws {
    let digest = try APIKeyDigestTests.digest(of: "old").hexadecimal
    #expect(try Self.ring([("old", 0)]).client(presenting: Array(digest.utf8).span) == nil)
  }

  @Test("a keyring finds no client for an empty key, even if its digest was configured")
  func emptyKey() throws {
    #expect(try Self.ring([("", 0)]).client(presenting: [UInt8]().span) == nil)
  }

  @Test("a keyring leaves a key to its first client, and returns that client")
  func twice() throws {
    var ring = try Self.ring([("shared", 3)])
    let owner = ring.add(try APIKeyDigestTests.digest(of: "shared"), for: 4)
    #expect(owner == 3)
    #expect(ring.client(presenting: Array("shared".utf8).span) == 3)
  }

  @Test("a keyring finds each of a thousand clients by each of three keys")
  func many() throws {
    let keys = (0..<3000).map { (key: "key \($0)", client: $0 / 3) }
    let ring = try Self.ring(keys)
    for (key, client) in keys { #expect(ring.client(presenting: Array(key.utf8).span) == client) }
    #expect(ring.client(presenting: Array("key 3000".utf8).span) == nil)
  }
}
