import CLockedMemory
import Cryptography
import Glibc
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("Without memory for OpenSSL")
struct MemoryFailureTests {
  @Test("the error does not blame the key, and the key signs again once there is memory", .otherPrograms)
  func keyIsNotBlamed() async {
    await #expect(processExitsWith: .success) {
      precondition(!SecureMemory.protect().map(\.id).contains("memory.no_secure_heap"))
      let key = try Samples.key()
      let text = Samples.secret(Samples.p8)
      unsafe locked_memory_replace_malloc { _ in nil }
      let signing = #expect(throws: TokenError.self) { try key.signature(of: [1]) }
      let parsing = #expect(throws: SigningKeyError.self) { try SigningKey(parsing: text, keyID: Samples.keyID()) }
      unsafe locked_memory_replace_malloc { unsafe malloc($0) }
      precondition(signing?.description == "Signing the token failed. OpenSSL ran out of memory in EVP_DigestFinal_ex.")
      precondition(parsing?.description.hasSuffix("The key is not the cause.") == true)
      _ = try key.signature(of: [1])
    }
  }
}
