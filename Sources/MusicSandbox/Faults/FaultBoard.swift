import Locks

/// The faults that are set at present, and by how much the clock is off.
final class FaultBoard: @unchecked Sendable {
  // Sendable: everything mutable is only touched inside the mutex.

  /// Most rules at a time.
  static let maximumRules = 64

  private let mutex = Mutex()
  private let standing: [Fault]
  private let initialSkew: Int
  private var ruleList: [FaultRule] = []
  private var skew: Int

  /// - Parameters:
  ///   - standing: What every request has.
  ///   - clockSkew: Seconds that the emulator's clock is ahead.
  init(standing: [Fault], clockSkew: Int) {
    (self.standing, initialSkew, skew) = (standing, clockSkew, clockSkew)
  }

  var clockSkew: Int { mutex.withLock { skew } }
  var rules: [FaultRule] { mutex.withLock { ruleList } }

  /// Replaces the rules and the skew; nil is what it was at the start.
  func set(_ rules: [FaultRule], clockSkew: Int?) {
    mutex.withLock {
      ruleList = rules
      skew = clockSkew ?? initialSkew
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

  /// The field `X-Sandbox-Fault`, and the parameter `sandbox[fault]` for those between whom and the emulator somebody
  /// drops fields.
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
