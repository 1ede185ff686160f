import Locks

/// Identifiers for errors as Apple makes them: 26 characters of base32 (RFC 4648 §6). They differ within a run, and are
/// the same in every run.
final class ErrorIdentifiers: @unchecked Sendable {
  // Sendable: the numbers are only drawn inside the mutex.
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")

  private let mutex = Mutex()
  private var numbers = Numbers(seed: 0x4D75_7369_63)

  func next() -> String {
    mutex.withLock { String((0..<26).map { _ in Self.alphabet[numbers.next(below: 32)] }) }
  }
}
