import Bytes
import Locks

/// Answers of the catalog that were made before: they depend on nothing but the request's target and host, and making
/// one costs more than everything else about a request.
final class MadeAnswers: @unchecked Sendable {
  // Sendable: everything mutable is only touched inside the mutex.

  /// Most bytes of content that are kept. Beyond it all are dropped: the next request makes its own again.
  private static let limit = 16 << 20

  private let mutex = Mutex()
  private var answers: [ByteString: SandboxAnswer] = [:]
  private var size = 0

  /// The answer to a request, made by `make` unless there is one.
  ///
  /// - Parameters:
  ///   - base: What absolute URLs in it begin with.
  ///   - isPersonal: Whether it may depend on the user, and must not be kept.
  func answer(
    to request: SandboxRequest, base: String, isPersonal: Bool, _ make: () throws(AppleError) -> SandboxAnswer
  ) throws(AppleError) -> SandboxAnswer {
    guard !isPersonal, request.method == "GET" || request.method == "HEAD" else { return try make() }
    let key = ByteString("\(request.target) \(base)")
    if let known = mutex.withLock({ answers[key] }) { return known }
    let answer = try make()
    let cost = key.count + answer.content.count
    mutex.withLock {
      if size + cost > Self.limit {
        answers.removeAll()
        size = 0
      }
      if answers.updateValue(answer, forKey: key) == nil { size += cost }
    }
    return answer
  }
}
