import DeveloperToken
import Testing
import UpstreamAdmission

@testable import TokenServer

@Suite("The states of the signing keys")
struct SigningKeysTests {
  @Test("have a key that the settings no longer name until its tokens have expired")
  func replaced() throws {
    func key(_ id: String, tokensExpireAt time: Int?, isConfigured: Bool = true) throws -> SigningKeys.Key {
      SigningKeys.Key(
        id: try KeyID(id), state: time == nil ? .signing : .retired, tokensExpireAt: time, isConfigured: isConfigured)
    }
    let keys = SigningKeys()
    keys.all = [
      try key("ABC1234567", tokensExpireAt: nil), try key("DEF1234567", tokensExpireAt: 100),
      try key("GHI1234567", tokensExpireAt: 100, isConfigured: false),
    ]
    #expect(keys.all(at: 99) == keys.all)
    #expect(keys.all(at: 100) == Array(keys.all[..<2]))
  }
}
