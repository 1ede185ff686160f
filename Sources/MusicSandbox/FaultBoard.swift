import Bytes
import EventLoop
import HTTPMessages
import HTTPTypes
import JSON
import Locks

/// Faults for matching requests. They serve clients that cannot send a field or a parameter.
private struct FaultRule {
  var faults: [Fault] = []
  var path = "/v1/"
  /// The text that the query must contain; nil for any query.
  var query: String?
  /// The number of further requests that can match; nil for no limit.
  var remaining: Int?
  var hits = 0

  init(_ value: JSONValue) throws(AppleError) {
    for member in value.members {
      switch (member.name, member.value.asciiText, member.value.integer) {
      case ("fault", let text?, _): faults = Fault.parse(text) ?? []
      case ("path", let text?, _): path = text
      case ("query", let text?, _): query = text
      case ("count", _, let count?) where (1...1_000_000).contains(count): remaining = count
      default:
        throw .init(.invalidContent, "A fault has the members fault, path and query, in ASCII, and count, from 1")
      }
    }
    guard !faults.isEmpty else { throw .init(.invalidContent, "fault must be \(SandboxOptions.Text.fault.form)") }
  }

  func matches(_ request: SandboxRequest) -> Bool {
    remaining != 0 && request.path.hasPrefix(path) && (query.map { (request.query ?? "").contains($0) } ?? true)
  }

  var document: JSONValue {
    .object(of: [
      ("fault", .text(faults.map(\.description).joined(separator: ","))), ("path", .text(path)),
      ("query", query.map { .text($0) }), ("remaining", remaining.map { .whole($0) }), ("hits", .whole(hits)),
    ])
  }
}

/// The present options, faults and counts, which a test changes while the emulator runs.
final class FaultBoard: Sendable {
  private static let maximumRules = 64
  private static let changeable: [SandboxOptions.Text] = [.clockSkew, .latency, .limit, .retryAfter]

  private let initial: SandboxOptions
  private let state: Locked<State>

  private struct State {
    var options: SandboxOptions
    var rules: [FaultRule] = []
    /// How often a test has changed the options and faults.
    var changes = 0
    /// The requests of each team with a trusted key: Apple's limit is per team.
    var teams: [String: RequestCount] = [:]
    /// The numbers of requests since the limit was set.
    var admitted = 0
    var limited = 0
  }

  init(_ options: SandboxOptions) {
    initial = options
    state = Locked(State(options: options))
  }

  var options: SandboxOptions { state.withLock { $0.options } }
  var changes: Int { state.withLock { $0.changes } }

  var document: JSONValue {
    state.withLock { state in
      [
        "faults": .array(state.rules.map(\.document)), "clockSkew": .whole(state.options.clockSkew),
        "admitted": .whole(state.admitted), "limited": .whole(state.limited),
      ]
    }
  }

  func wait(_ team: String, now: Deadline) -> UInt64? {
    state.withLock { state in
      let wait = state.options.limit.flatMap { state.teams[team, default: RequestCount(limit: $0)].wait(now: now) }
      if wait == nil { state.admitted += 1 } else { state.limited += 1 }
      return wait
    }
  }

  /// Returns the faults of a request: the standing ones, those of the first rule that matches, whose remaining count goes
  /// down, and those in the request. The mistake is an unknown fault in the request.
  func faults(for request: SandboxRequest) -> (faults: [Fault], mistake: AppleError?) {
    let ofRule: [Fault] = state.withLock { state in
      guard let index = state.rules.firstIndex(where: { $0.matches(request) }) else { return [] }
      state.rules[index].hits += 1
      state.rules[index].remaining = state.rules[index].remaining.map { $0 - 1 }
      return state.rules[index].faults
    }
    var faults = initial.faults + ofRule
    let field = request.fields.single(.literal("X-Sandbox-Fault"))
    // The parameter is for clients behind an intermediary that drops the field.
    let parameter = try? Query(request.query).bracketed("sandbox").first { $0.inner == "fault" }?.value
    for case (let name, let text?) in [("X-Sandbox-Fault", field), ("sandbox[fault]", parameter)] {
      let asked = Fault.parse(text)
      guard let asked else { return (faults, .invalid(name, "The fault '\(text.prefix(64))' is unknown")) }
      faults += asked
    }
    return (faults, nil)
  }

  /// Sets the rules and options in the content of `PUT /sandbox/faults` (docs/sandbox.md), and resets the others.
  func set(_ content: [UInt8]) throws(AppleError) {
    guard let object = JSONReader.read(content), object.isObject, object.repeatedNames.isEmpty,
      object["limit"] == nil || object["rate"] == nil
    else { throw .init(.invalidContent, "The content must be a JSON object, with each member once, and limit or rate") }
    var new = State(options: initial)
    for member in object.members {
      switch (member.name, member.value) {
      case ("faults", .array(let rules)) where rules.count <= Self.maximumRules:
        for rule in rules { new.rules.append(try FaultRule(rule)) }
      case ("faults", _):
        throw .init(.invalidContent, "faults must be an array of at most \(Self.maximumRules) objects")
      case ("rate", let rate):
        let limit = "bucket:\(rate["perSecond"]?.integer ?? 0)/1s,burst=\(rate["burst"]?.integer ?? 0)"
        guard new.options.set(.limit, to: limit) != nil else {
          throw .init(.invalidContent, "rate must have perSecond and burst, whole numbers from 1 to 1000000")
        }
      case (let name, let value):
        guard let option = Self.changeable.first(where: { name == $0.rawValue }) else {
          let known = Self.changeable.map(\.rawValue).joined(separator: ", ")
          let member = name.text.prefix(64)
          throw .init(.invalidContent, "The member '\(member)' is unknown. Known are faults, rate, \(known)")
        }
        guard let text = value.asciiText ?? value.integer.map(String.init), new.options.set(option, to: text) != nil
        else { throw .init(.invalidContent, "\(option.rawValue) must be \(option.form)") }
      }
    }
    change(to: new)
  }

  func reset() { change(to: State(options: initial)) }

  private func change(to new: State) {
    state.withLock { state in
      let old = state
      state = new
      state.changes = old.changes + 1
      // Counts go on under the same limit.
      guard old.options.limit == new.options.limit else { return }
      (state.teams, state.admitted, state.limited) = (old.teams, old.admitted, old.limited)
    }
  }
}

extension JSONValue {
  fileprivate var asciiText: String? { string.flatMap { $0.isASCII ? $0.text : nil } }
}

/// A fault that a test or an option requests, as it writes it: `status=503`.
package struct Fault: Sendable, Equatable, CustomStringConvertible {
  /// The raw value is the name in requests; docs/sandbox.md explains each.
  package enum Kind: String, Sendable {
    case delay, status, redirect, huge, slow, reset, truncate, goaway
    case unauthorized = "empty-401"
    case rateLimited = "rate-limit"
    case foreignFields = "set-cookie"
    case libraryChanges = "library-changes"
  }

  let kind: Kind
  private let value: Substring?
  /// The status, the number of bytes, or the milliseconds of a delay; 0 for other faults.
  let number: Int

  /// The maximum delay in milliseconds, so that a typing error does not hold connections forever.
  static let maximumDelay = 600_000
  private static let maximumContent = 1 << 30

  static func parse(_ text: String) -> [Fault]? {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false)
    let faults = parts.compactMap(Fault.init)
    return faults.count == parts.count ? faults : nil
  }

  private init?(_ text: Substring) {
    let halves = text.halves("=")
    guard let kind = Kind(rawValue: String(halves?.0 ?? text)) else { return nil }
    let value = halves?.1
    let number: Int? =
      switch kind {
      case .delay: value?.milliseconds(in: 0...Self.maximumDelay)
      case .status: value?.number(in: 400...599)
      case .huge, .slow: value?.number(in: 1...Self.maximumContent)
      case .redirect: 0
      default: value == nil ? 0 : nil
      }
    guard let number else { return nil }
    (self.kind, self.value, self.number) = (kind, value, number)
  }

  package var description: String { kind.rawValue + (value.map { "=\($0)" } ?? "") }

  /// Returns the response that replaces the real one; nil if this fault keeps it.
  func replacement(id: String) -> SandboxResponse? {
    switch kind {
    case .status: SandboxResponse(AppleError(status: number), id: id)
    case .unauthorized: .unauthorized
    case .rateLimited: .rateLimited
    case .redirect:
      SandboxResponse(301, fields: [.location: value.map(String.init) ?? "https://music.example/elsewhere"])
    case .huge: SandboxResponse(200, fields: [.contentType: SandboxResponse.mediaType])
    default: nil
    }
  }

  static let foreign: HTTPFields = [
    .setCookie: "sandbox=1; Path=/; Secure; HttpOnly", .setCookie: "itspod=2; Path=/",
    .accessControlAllowCredentials: "true", .accessControlExposeHeaders: "Music-User-Token",
    .wwwAuthenticate: "Bearer", .proxyAuthenticate: "Basic", .strictTransportSecurity: "max-age=31536000",
    .literal("Alt-Svc"): "h3=\":443\"", .server: "sandbox", .literal("X-Apple-Jingle-Correlation-Key"): "SANDBOX",
  ]
}
