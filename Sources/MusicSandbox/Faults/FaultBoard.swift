import Locks

/// The faults that are set at present, and by how much the clock is off.
final class FaultBoard: @unchecked Sendable {
  // Sendable: everything mutable is only touched inside the mutex.

  /// Most rules at a time.
  static let maximumRules = 64

  private let mutex = Mutex()
  private let standing: [Fault]
  private let initial: Manner
  private var ruleList: [FaultRule] = []
  private var manner: Manner

  /// How all requests are answered.
  private struct Manner {
    var clockSkew: Int
    var latency: Duration
    var retryAfter: RetryAfterForm
  }

  /// - Parameters:
  ///   - standing: What every request has.
  ///   - clockSkew: Seconds that the emulator's clock is ahead.
  ///   - latency: The time before each response.
  ///   - retryAfter: What a 429 of the limit says about when to come back.
  init(
    standing: [Fault], clockSkew: Int, latency: Duration = .zero, retryAfter: RetryAfterForm = .none
  ) {
    self.standing = standing
    initial = Manner(clockSkew: clockSkew, latency: latency, retryAfter: retryAfter)
    manner = initial
  }

  var clockSkew: Int { mutex.withLock { manner.clockSkew } }
  var latency: Duration { mutex.withLock { manner.latency } }
  var retryAfter: RetryAfterForm { mutex.withLock { manner.retryAfter } }
  var rules: [FaultRule] { mutex.withLock { ruleList } }

  /// Replaces the rules and the rest; nil is what it was at the start.
  func set(
    _ rules: [FaultRule], clockSkew: Int?, latency: Duration? = nil, retryAfter: RetryAfterForm? = nil
  ) {
    mutex.withLock {
      ruleList = rules
      manner = Manner(
        clockSkew: clockSkew ?? initial.clockSkew, latency: latency ?? initial.latency,
        retryAfter: retryAfter ?? initial.retryAfter)
    }
  }

  /// The faults for a request: the standing ones, those that it asks for itself, and those of the first rule that
  /// matches it, which counts it. What a request asks for and is no fault is a mistake that it should hear of.
  func faults(for request: SandboxRequest) -> (faults: [Fault], mistake: AppleError?) {
    let taken = standing + takeRule(for: request)
    do {
      return (taken + (try Self.asked(by: request)), nil)
    } catch {
      return (taken, error)
    }
  }

  private func takeRule(for request: SandboxRequest) -> [Fault] {
    mutex.withLock {
      guard let index = ruleList.firstIndex(where: { $0.matches(request) }) else { return [] }
      ruleList[index].hits += 1
      if let remaining = ruleList[index].remaining { ruleList[index].remaining = remaining - 1 }
      return ruleList[index].faults
    }
  }

  /// Reads the field `X-Sandbox-Fault` and the parameter `sandbox[fault]`. The parameter is for clients behind an
  /// intermediary that drops the field.
  private static func asked(by request: SandboxRequest) throws(AppleError) -> [Fault] {
    let parameter = try? Query(request.query).bracketed("sandbox").first { $0.inner == "fault" }?.value
    var faults: [Fault] = []
    for (name, text) in [("X-Sandbox-Fault", request.fields.single("x-sandbox-fault")), ("sandbox[fault]", parameter)] {
      guard let text else { continue }
      guard let asked = Fault.parse(text) else {
        throw .invalidParameter(name, "There is no such fault: '\(text.prefix(64))'")
      }
      faults += asked
    }
    return faults
  }
}
