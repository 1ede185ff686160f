import CLockedMemory
import Cryptography
import Dispatch
import Glibc
import Locks
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("Locked memory")
struct LockedRegionTests {
  @Test("holds what OpenSSL allocates only while a key is in use")
  func onlyWhileInUse() async {
    await #expect(processExitsWith: .success) {
      precondition(locked_memory_prepare() != locked_memory_absent)
      let outside = unsafe locked_memory_openssl_malloc(100, nil, 0)
      let inside = SecureMemory.use { unsafe UInt(bitPattern: locked_memory_openssl_malloc(100, nil, 0)) }
      let secret = unsafe UInt(bitPattern: locked_memory_allocate(100))
      precondition(inside.distance(to: secret).magnitude < locked_memory_size())
      precondition(UInt(bitPattern: outside).distance(to: secret).magnitude > locked_memory_size())
    }
  }

  @Test("that is full is reported, work continues, and freed secrets make room again", .otherPrograms)
  func overflow() async {
    await #expect(processExitsWith: .success) {
      let notices = Notices()
      SecureMemory.onOverflow { notices.count += 1 }
      var secrets = (0..<100).map { _ in SecretBytes(copying: [UInt8](repeating: 7, count: 1000)[...]) }
      let overflows = notices.count
      precondition(overflows > 0 && overflows < 100)
      let key = try SigningKey(parsing: Samples.secret(Samples.p8), keyID: Samples.keyID())
      _ = try key.signature(of: [1])
      secrets = []
      notices.count = 0
      secrets = (0..<30).map { _ in SecretBytes(copying: [UInt8](repeating: 7, count: 1000)[...]) }
      precondition(notices.count == 0 && secrets.count == 30)
    }
  }

  @Test("is wiped when it is freed or moved")
  func wiped() async {
    await #expect(processExitsWith: .success) {
      let size = 1000
      guard let memory = unsafe locked_memory_allocate(size) else { preconditionFailure() }
      unsafe memset(memory, 7, size)
      // Allocated after `memory`, so that the freed block stays a separate block.
      let next = unsafe locked_memory_allocate(size)
      guard let larger = unsafe locked_memory_openssl_realloc(memory, 2 * size, nil, 0) else { preconditionFailure() }
      let old = unsafe UnsafeRawBufferPointer(start: memory, count: size)
      let new = unsafe UnsafeRawBufferPointer(start: larger, count: size)
      // The first bytes of a free block link the block to others.
      precondition(unsafe old.dropFirst(16).allSatisfy { $0 == 0 })
      precondition(unsafe new.allSatisfy { $0 == 7 })
      unsafe locked_memory_free(larger, 2 * size)
      unsafe locked_memory_free(next, size)
      precondition(unsafe new.dropFirst(16).allSatisfy { $0 == 0 })
    }
  }

  @Test("serves many threads that sign at the same time")
  func threads() throws {
    let key = try Samples.key()
    let verified = try Threads.run(8) { _ in
      try (0..<200).allSatisfy { number in
        let text = Array("\(number)".utf8)
        return key.verificationKey.verifies(try key.signature(of: text), of: text.span)
      }
    }
    #expect(verified == [Bool](repeating: true, count: 8))
  }

  @Test("and OpenSSL serve a thread that still signs while the program ends", .otherPrograms)
  func end() async {
    await #expect(processExitsWith: .exitCode(7)) {
      // It runs after OpenSSL's own cleanup, if there is one: what is registered first runs last.
      atexit {
        let before = LateSignatures.count.withLock { $0 }
        wait(for: "a thread signs again") { LateSignatures.count.withLock { $0 } > before + 10 }
      }
      _ = SecureMemory.protect()
      let key = try SigningKey(parsing: Samples.secret(Samples.p8), keyID: Samples.keyID())
      DispatchQueue(label: "signatures").async {
        while true {
          precondition((try? key.signature(of: [1])) != nil)
          LateSignatures.count.withLock { $0 += 1 }
        }
      }
      wait(for: "a thread signs") { LateSignatures.count.withLock { $0 } > 10 }
      exit(7)
    }
  }

  /// The signatures of a thread while the program ends.
  private enum LateSignatures {
    static let count = Locked(0)
  }

  /// A counter for a callback.
  private final class Notices: @unchecked Sendable {
    // Sendable: used on one thread.
    var count = 0
  }
}
