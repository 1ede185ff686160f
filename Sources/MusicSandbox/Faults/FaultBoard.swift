import Bytes
import EventLoop
import HTTPMessages
import HTTPTypes
import JSON
import Locks
import MusicCatalog

/// The present options, faults and counts, which a test changes while the emulator runs.
final class FaultBoard: Sendable {
  /// The maximum number of rules.
  static let maximumRules = 64

  private let initial: SandboxOptions
  private let state: Locked<State>

  struct State {
    var options: SandboxOptions
    fileprivate(set) var rules: [FaultRule] = []
    /// The requests of each team. Apple's limit is per team, so another token of the same key does not help. Only teams
    /// with a trusted key have a count, so the options bound their number.
    private var teams: [String: RequestCount] = [:]
    /// The numbers of requests since the limit was set.
    private(set) var admitted = 0
    private(set) var limited = 0

    fileprivate init(_ options: SandboxOptions) {
      self.options = options
    }

    fileprivate mutating func refusal(_ team: String, now: Deadline) -> Duration? {
      var refusal: Duration?
      if let limit = options.limit { refusal = teams[team, default: RequestCount(limit, now: now)].refusal(now: now) }
      if refusal == nil { admitted += 1 } else { limited += 1 }
      return refusal
    }

    fileprivate mutating func change(to new: State) {
      // Counts go on under the same limit.
      let isSame = options.limit == new.options.limit
      let (teams, admitted, limited) = (teams, admitted, limited)
      self = new
      if isSame { (self.teams, self.admitted, self.limited) = (teams, admitted, limited) }
    }
  }

  init(_ options: SandboxOptions) {
    initial = options
    state = Locked(State(options))
  }

  var current: State { state.withLock { $0 } }
  /// Only the options: with a copy of the counts in use, each request would have to copy them all.
  var options: SandboxOptions { state.withLock { $0.options } }

  /// Counts a request of a team.
  ///
  /// - Returns: Nil if the limit admits the request; otherwise the time until it admits one.
  func refusal(_ team: String, now: Deadline) -> Duration? { state.withLock { $0.refusal(team, now: now) } }

  /// Returns the faults of a request: the standing ones, those of the first rule that matches, and those in the
  /// request. Each match reduces the remaining count of its rule. The mistake is an unknown fault in the request.
  func faults(for request: SandboxRequest) -> (faults: [Fault], mistake: AppleError?) {
    let taken = initial.faults + takeRule(for: request)
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
    let name = HTTPField.Name.literal("X-Sandbox-Fault")
    let parameter = try? Query(request.query).bracketed("sandbox").first { $0.inner == "fault" }?.value
    var faults: [Fault] = []
    for (name, text) in [(name.rawName, request.fields.single(name)), ("sandbox[fault]", parameter)] {
      guard let text else { continue }
      guard let asked = Fault.parse(text) else { throw .invalid(name, "The fault '\(text.prefix(64))' is unknown") }
      faults += asked
    }
    return faults
  }

  // MARK: Orders

  /// Sets the rules and options in the content of `PUT /sandbox/faults`; the others become the initial ones.
  ///
  /// ```json
  /// {"faults": [{"fault": "status=503", "path": "/v1/catalog/", "query": "term=", "count": 3}],
  ///  "clockSkew": 60, "limit": "fixed-window:20/1s", "retryAfter": "seconds", "latency": "100ms"}
  /// ```
  func set(_ content: [UInt8]) throws(AppleError) {
    guard let object = JSONReader.read(content), object.isObject else {
      throw .init(.invalidContent, "The content must be a JSON object")
    }
    var new = State(initial)
    var hasLimit = false
    for member in object.members {
      let text = member.value.asciiText
      switch member.name {
      case "faults": new.rules = try Self.rules(member.value)
      case "clockSkew": new.options.clockSkew = try Self.number(member, SandboxOptions.clockSkews)
      case "rate" where !hasLimit, "limit" where !hasLimit:
        hasLimit = true
        new.options.limit = try member.name == "rate" ? Self.rate(member.value) : Self.limit(text)
      case "latency":
        new.options.delay = .milliseconds(
          try Self.required(
            text.flatMap { Fault.milliseconds($0[...]) }, "latency must be a time such as 100ms or 1s"))
      case "retryAfter":
        new.options.retryAfter = try Self.required(
          text.flatMap(RetryAfterForm.init), "retryAfter must be none, seconds or date")
      default:
        throw .init(
          .invalidContent,
          """
          The member '\(member.name.text.unicodeScalars.prefix(64))' is unknown or repeated. The members are: faults, \
          clockSkew, latency, retryAfter, and limit or rate
          """)
      }
    }
    state.withLock { $0.change(to: new) }
  }

  /// Restores the initial options, without rules.
  func reset() {
    state.withLock { $0.change(to: State(initial)) }
  }

  private static func required<Value>(_ value: Value?, _ sentence: String) throws(AppleError) -> Value {
    guard let value else { throw .init(.invalidContent, sentence) }
    return value
  }

  private static func number(_ member: JSONValue.Member, _ range: ClosedRange<Int>) throws(AppleError) -> Int {
    try required(
      member.value.integer.flatMap { range.contains($0) ? $0 : nil },
      "\(member.name) must be a whole number from \(range.lowerBound) to \(range.upperBound)")
  }

  private static func rate(_ value: JSONValue) throws(AppleError) -> RequestLimit {
    let limit = RequestLimit(perSecond: value["perSecond"]?.integer ?? 0, burst: value["burst"]?.integer ?? 0)
    return try required(limit, "rate must have perSecond and burst, whole numbers from 1 to 1000000")
  }

  private static func limit(_ text: String?) throws(AppleError) -> RequestLimit {
    try required(
      text.flatMap(RequestLimit.init),
      "limit must have a form such as bucket:20/1s, fixed-window:20/1s or sliding-window:20/1s")
  }

  private static func rules(_ value: JSONValue) throws(AppleError) -> [FaultRule] {
    guard case .array(let elements) = value, elements.count <= maximumRules else {
      throw .init(.invalidContent, "faults must be an array of at most \(maximumRules) objects")
    }
    var rules: [FaultRule] = []
    for element in elements { rules.append(try rule(element)) }
    return rules
  }

  private static func rule(_ value: JSONValue) throws(AppleError) -> FaultRule {
    var (fault, path, query, count): (String?, String, String?, Int?) = (nil, "/v1/", nil, nil)
    for member in value.members {
      switch (member.name, member.value.asciiText) {
      case ("fault", let text?): fault = text
      case ("path", let text?): path = text
      case ("query", let text?): query = text
      case ("count", _): count = try number(member, 1...1_000_000)
      default: throw .init(.invalidContent, "A fault has the members fault, path and query, in ASCII, and count")
      }
    }
    let faults = try required(fault.flatMap(Fault.parse), "The fault '\((fault ?? "").prefix(64))' is unknown")
    return FaultRule(faults: faults, path: path, query: query, remaining: count)
  }
}

extension JSONValue {
  /// A string of ASCII. Nil for other values.
  fileprivate var asciiText: String? { string.flatMap { $0.isASCII ? $0.text : nil } }
}
