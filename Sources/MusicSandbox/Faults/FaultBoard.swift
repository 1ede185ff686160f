import Bytes
import JSON
import Locks
import MusicCatalog

/// The present faults, and the present offset of the clock.
final class FaultBoard: Sendable {
  /// The maximum number of rules.
  static let maximumRules = 64

  private let standing: [Fault]
  private let initial: Manner
  private let state: Locked<State>

  private struct State {
    var rules: [FaultRule] = []
    var manner: Manner
  }

  /// The settings that apply to all responses.
  private struct Manner {
    var clockSkew: Int
    var latency: Duration
    var retryAfter: RetryAfterForm
  }

  /// Creates a board.
  ///
  /// - Parameters:
  ///   - standing: The faults of every request.
  ///   - clockSkew: The number of seconds by which the emulator's clock is ahead.
  ///   - latency: The delay before each response.
  ///   - retryAfter: The form of `Retry-After` in a 429 of the limit.
  init(
    standing: [Fault], clockSkew: Int, latency: Duration = .zero, retryAfter: RetryAfterForm = .none
  ) {
    self.standing = standing
    initial = Manner(clockSkew: clockSkew, latency: latency, retryAfter: retryAfter)
    state = Locked(State(manner: initial))
  }

  var clockSkew: Int { state.withLock { $0.manner.clockSkew } }
  var latency: Duration { state.withLock { $0.manner.latency } }
  var retryAfter: RetryAfterForm { state.withLock { $0.manner.retryAfter } }
  var rules: [FaultRule] { state.withLock { $0.rules } }

  /// Replaces the rules and the settings; nil restores the initial value.
  func set(
    _ rules: [FaultRule], clockSkew: Int?, latency: Duration? = nil, retryAfter: RetryAfterForm? = nil
  ) {
    let manner = Manner(
      clockSkew: clockSkew ?? initial.clockSkew, latency: latency ?? initial.latency,
      retryAfter: retryAfter ?? initial.retryAfter)
    state.withLock { $0 = State(rules: rules, manner: manner) }
  }

  /// Returns the faults of a request: the standing ones, those of the first rule that matches, and those in the
  /// request. Each match reduces the remaining count of its rule. The mistake is an unknown fault in the request.
  func faults(for request: SandboxRequest) -> (faults: [Fault], mistake: AppleError?) {
    let taken = standing + takeRule(for: request)
    do {
      return (taken + (try Self.asked(by: request)), nil)
    } catch {
      return (taken, error)
    }
  }

  private func takeRule(for request: SandboxRequest) -> [Fault] {
    state.withLock { state in
      guard let index = state.rules.firstIndex(where: { $0.matches(request) }) else { return [] }
      state.rules[index].hits += 1
      if let remaining = state.rules[index].remaining { state.rules[index].remaining = remaining - 1 }
      return state.rules[index].faults
    }
  }

  /// Parses the field `X-Sandbox-Fault` and the parameter `sandbox[fault]`. The parameter is for clients behind an
  /// intermediary that drops the field.
  private static func asked(by request: SandboxRequest) throws(AppleError) -> [Fault] {
    let parameter = try? Query(request.query).bracketed("sandbox").first { $0.inner == "fault" }?.value
    var faults: [Fault] = []
    for (name, text) in [("X-Sandbox-Fault", request.fields.single("x-sandbox-fault")), ("sandbox[fault]", parameter)] {
      guard let text else { continue }
      guard let asked = Fault.parse(text) else {
        throw .invalidParameter(name, "The fault '\(text.prefix(64))' is unknown")
      }
      faults += asked
    }
    return faults
  }
}

/// The content of `PUT /sandbox/faults`.
///
/// ```json
/// {"faults": [{"fault": "status=503", "path": "/v1/catalog/", "query": "term=", "count": 3}],
///  "clockSkew": 60, "limit": "fixed-window:20/1s", "retryAfter": "seconds", "latency": "100ms"}
/// ```
struct FaultOrder {
  private(set) var rules: [FaultRule] = []
  private(set) var clockSkew: Int?
  private(set) var limit: RequestLimit?
  private(set) var latency: Duration?
  private(set) var retryAfter: RetryAfterForm?

  init(_ content: [UInt8]) throws(AppleError) {
    guard let object = JSONReader.read(content), object.isObject else {
      throw .invalidContent("The content must be a JSON object")
    }
    for member in object.members {
      switch member.name {
      case "faults": rules = try Self.rules(member.value)
      case "clockSkew": clockSkew = try Self.number(member, SandboxOptions.clockSkews)
      case "rate" where limit == nil: limit = try Self.rate(member.value)
      case "limit" where limit == nil: limit = try Self.limit(member.value)
      case "latency": latency = try Self.latency(member.value)
      case "retryAfter": retryAfter = try Self.retryAfter(member.value)
      default:
        throw .invalidContent(
          """
          The member '\(member.name.text.unicodeScalars.prefix(64))' is unknown or repeated. The members are: faults, \
          clockSkew, latency, retryAfter, and limit or rate
          """)
      }
    }
  }

  private static func rules(_ value: JSONValue) throws(AppleError) -> [FaultRule] {
    guard case .array(let elements) = value, elements.count <= FaultBoard.maximumRules else {
      throw .invalidContent("faults must be an array of at most \(FaultBoard.maximumRules) objects")
    }
    var rules: [FaultRule] = []
    for element in elements { rules.append(try rule(element)) }
    return rules
  }

  private static func rule(_ value: JSONValue) throws(AppleError) -> FaultRule {
    var (text, path, query, count): (String?, String, String?, Int?) = (nil, "/v1/", nil, nil)
    for member in value.members {
      switch (member.name, member.value) {
      case ("fault", .string(let string)) where string.isASCII: text = string.text
      case ("path", .string(let string)) where string.isASCII: path = string.text
      case ("query", .string(let string)) where string.isASCII: query = string.text
      case ("count", _): count = try number(member, 1...1_000_000)
      default: throw .invalidContent("A fault has the members fault, path and query, in ASCII, and count")
      }
    }
    guard let text, let faults = Fault.parse(text) else {
      throw .invalidContent("The fault '\((text ?? "").prefix(64))' is unknown")
    }
    return FaultRule(faults: faults, path: path, query: query, remaining: count)
  }

  private static func rate(_ value: JSONValue) throws(AppleError) -> RequestLimit {
    guard case .number(let perSecond)? = value["perSecond"], case .number(let burst)? = value["burst"],
      let perSecond = Int(perSecond), let burst = Int(burst),
      let rate = RequestLimit(perSecond: perSecond, burst: burst)
    else { throw .invalidContent("rate must have perSecond and burst, whole numbers from 1 to 1000000") }
    return rate
  }

  private static func limit(_ value: JSONValue) throws(AppleError) -> RequestLimit {
    guard case .string(let text) = value, text.isASCII, let limit = RequestLimit(text.text) else {
      throw .invalidContent("limit must have a form such as bucket:20/1s, fixed-window:20/1s or sliding-window:20/1s")
    }
    return limit
  }

  private static func latency(_ value: JSONValue) throws(AppleError) -> Duration {
    guard case .string(let text) = value, text.isASCII, let milliseconds = Fault.milliseconds(text.text[...]) else {
      throw .invalidContent("latency must be a time such as 100ms or 1s")
    }
    return .milliseconds(milliseconds)
  }

  private static func retryAfter(_ value: JSONValue) throws(AppleError) -> RetryAfterForm {
    guard case .string(let text) = value, text.isASCII, let form = RetryAfterForm(rawValue: text.text) else {
      throw .invalidContent("retryAfter must be none, seconds or date")
    }
    return form
  }

  private static func number(_ member: JSONValue.Member, _ range: ClosedRange<Int>) throws(AppleError) -> Int {
    guard case .number(let text) = member.value, let number = Int(text), range.contains(number) else {
      throw .invalidContent("\(member.name) must be a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }
}
