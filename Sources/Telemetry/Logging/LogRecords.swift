import Bytes
package import Logging
import Synchronization
package import Tracing

/// The access log record of one request. It contains no query, token or credential.
package struct AccessRecord: Sendable {
  package var requestID: RequestID
  /// The request's trace, and the server's span in it.
  package var trace: RequestTrace
  /// The client's address, without the port.
  package var client: String
  /// The caller replaces unknown methods, because a client may send any text.
  package var method: String
  /// The template such as `/token`, never the path as it was sent.
  package var route: StaticString
  /// The path as it was sent, for a person at a terminal; empty for all other logs.
  package var path: [UInt8]
  package var status: Int
  /// The response's content in bytes.
  package var bytes: Int
  /// The time from the request's first byte to its response, before the response is written.
  package var duration: Duration
  /// What the upstream said in the response that the server has replaced, in printable texts; nil if it has replaced none.
  /// The name of a text is what precedes it in JSON.
  package var upstream: (status: Int, texts: [(name: StaticString, value: String?)])?

  package init(
    requestID: RequestID, trace: RequestTrace, client: String, method: String, route: StaticString, path: [UInt8] = [],
    status: Int, bytes: Int, duration: Duration
  ) {
    (self.requestID, self.trace, self.client, self.method) = (requestID, trace, client, method)
    (self.route, self.path, self.status, self.bytes, self.duration) = (route, path, status, bytes, duration)
  }

  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    var texts = client.utf8.count + method.utf8.count
    // The names of the fields and the status have fewer than 256 bytes.
    if let upstream { texts += 256 + upstream.texts.reduce(0) { $0 + ($1.value?.utf8.count ?? 0) } }
    format.line(to: &bytes, time, "access", room: LogFormat.room(forTexts: texts)) { line in
      format.field(&line, json: #","request.id":"#, requestID)
      format.field(&line, trace)
      format.field(&line, json: #","client.address":"#, client)
      format.field(&line, json: #","http.method":"#, method)
      format.field(&line, json: #","http.route":"#, word: route)
      format.field(&line, json: #","http.status":"#, status)
      format.field(&line, json: #","response.bytes":"#, self.bytes)
      format.field(&line, json: #","duration.ms":"#, milliseconds: duration)
      guard let upstream else { return }
      format.field(&line, json: #","upstream.status":"#, upstream.status)
      for case (let name, let value?) in upstream.texts { format.field(&line, json: name, value) }
    }
  }
}

extension AccessRecord {
  /// The maximum number of columns in a line, without escape sequences.
  package static let columns = 120

  /// Appends a line for a person, with a colour for the status: `15:04:05Z  200  GET /v1/catalog/us/songs/1  1.234 ms`.
  func appendForPerson(to bytes: inout [UInt8], time: LineTime) {
    bytes.appendClock(time)
    bytes.append(colour)
    bytes.append(decimal: status)
    bytes.append("\u{1B}[0m  ")
    bytes.appendWord(method, atMost: 8)
    bytes.append(" ")
    // The other parts have at most 44 columns: time 11, status 5, method 9, and a duration below 100 days 19.
    bytes.appendWord(path.isEmpty ? Array(route.description.utf8) : path, atMost: Self.columns - 44)
    bytes.append("  ")
    bytes.append(addingCapacity: 32) { (line: inout OutputSpan<UInt8>) in
      line.appendMilliseconds(duration)
      line.append(" ms\n")
    }
  }

  private var colour: StaticString {
    switch status {
    case ..<300: "\u{1B}[32m"
    case ..<400: "\u{1B}[36m"
    case ..<500: "\u{1B}[33m"
    default: "\u{1B}[31m"
    }
  }
}

/// The audit record of one access decision.
///
/// A record contains no token, no credential, and no subject of a caller's JWT, which identifies a person.
package struct AuditRecord: Sendable {
  /// The developer token that the server issued.
  package struct Token: Sendable {
    package var keyID: String
    /// The origins in the token; empty if the token is bound to no origin.
    package var origins: [String]
    /// Its `exp`, in seconds since 1970.
    package var expiry: Int
    package var digest: TokenDigest

    package init(keyID: String, origins: [String], expiry: Int, digest: TokenDigest) {
      (self.keyID, self.origins, self.expiry, self.digest) = (keyID, origins, expiry, digest)
    }
  }

  package var requestID: RequestID
  /// The request's trace, and the server's span in it.
  package var trace: RequestTrace
  /// The client's id in the settings; `-` if the caller belongs to no client.
  package var client: String
  /// The caller's address, without the port.
  package var address: String
  /// The route's template, never the path as it was sent.
  package var route: StaticString
  package var outcome: AuditOutcome
  /// The reason in one word such as `origin_not_allowed`, or nil if there is nothing to explain.
  package var reason: StaticString?
  /// The refused web origin, or nil if the reason is another. It is a checked ASCII origin, or `null`.
  package var origin: String?
  /// The issued token, or nil if the server issued none.
  package var token: Token?

  package init(
    requestID: RequestID, trace: RequestTrace, client: String, address: String, route: StaticString,
    outcome: AuditOutcome, reason: StaticString? = nil, origin: String? = nil, token: Token? = nil
  ) {
    (self.requestID, self.trace, self.client, self.address) = (requestID, trace, client, address)
    (self.route, self.outcome, self.reason, self.origin, self.token) = (route, outcome, reason, origin, token)
  }
}

package enum AuditOutcome: Sendable, CaseIterable {
  /// The caller has access. The request may still fail for another reason.
  case granted
  /// The caller has no access, or the server does not know the caller.
  case refused
  case limited
  /// An operator asked for the decision about a request that no caller sent. The reason is that of a refusal, or nil.
  case explained

  /// The name in logs and metrics.
  package var name: StaticString {
    switch self {
    case .granted: "granted"
    case .refused: "refused"
    case .limited: "limited"
    case .explained: "explained"
    }
  }
}

extension AuditRecord {
  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    let texts = client.utf8.count + address.utf8.count + (origin ?? "").utf8.count
    let room = LogFormat.room(forTexts: texts) + (token?.room ?? 0)
    format.line(to: &bytes, time, "audit", room: room) { line in
      format.field(&line, json: #","request.id":"#, requestID)
      format.field(&line, trace)
      format.field(&line, json: #","client.id":"#, client)
      format.field(&line, json: #","client.address":"#, address)
      format.field(&line, json: #","http.route":"#, word: route)
      format.field(&line, json: #","audit.outcome":"#, word: outcome.name)
      if let reason { format.field(&line, json: #","audit.reason":"#, word: reason) }
      if let origin { format.field(&line, json: #","request.origin":"#, origin) }
      guard let token else { return }
      format.field(&line, json: #","token.key_id":"#, token.keyID)
      format.field(&line, json: #","token.origins":"#, token.origins)
      format.field(&line, json: #","token.expiry":"#, token.expiry)
      format.field(&line, json: #","token.sha256":"#, token.digest)
    }
  }

  /// Appends a line for a person at a terminal:
  /// `15:04:05Z  refused  origin_not_allowed  -  https://evil.example  /token`, with a colour for the outcome.
  func appendForPerson(to bytes: inout [UInt8], time: LineTime) {
    bytes.appendClock(time)
    bytes.append("\u{1B}[33m")
    bytes.appendWord(outcome.name.description, atMost: 7)
    bytes.append("\u{1B}[0m  ")
    bytes.appendWord(reason?.description ?? "-", atMost: 26)
    bytes.append("  ")
    bytes.appendWord(client, atMost: 20)
    bytes.append("  ")
    if let origin {
      bytes.appendWord(origin, atMost: 32)
      bytes.append("  ")
    }
    // The other parts have at most 104 of the 120 columns, with the time, which takes 11.
    bytes.appendWord(route.description, atMost: AccessRecord.columns - 104)
    bytes.append("\n")
  }
}

extension AuditRecord.Token {
  /// Room in bytes for its texts: quotes and a comma around each origin.
  fileprivate var room: Int {
    origins.reduce(LogFormat.room(forTexts: keyID.utf8.count)) { $0 + LogFormat.room(forTexts: $1.utf8.count) + 3 }
  }
}

/// The SHA-256 of a token in its compact form: a type of its own, so that no token can be passed by mistake.
package struct TokenDigest: Sendable {
  let bytes: InlineArray<32, UInt8>

  package init(_ bytes: InlineArray<32, UInt8>) { self.bytes = bytes }
}

/// What a line is, in the order in which lines give way if a log has no room for all.
///
/// A refused caller can cause any number of access lines and refusals. So these leave room for the server's own messages,
/// and records of grants and of keys have room of their own: nothing that a stranger can cause takes it.
enum LineRank: Sendable, CaseIterable {
  case access
  case refusal
  case message
  /// The audit record of a grant without a token, such as a catalog request.
  case grant
  /// The audit record of a developer token.
  case tokenGrant
  case keyEvent

  init(_ record: AuditRecord) {
    self = record.outcome != .granted ? .refusal : record.token == nil ? .grant : .tokenGrant
  }

  /// Whether the line is a record of what the server gave, which must not be lost.
  var isRecord: Bool { self == .grant || self == .tokenGrant || self == .keyEvent }
  /// Whether the line is one of the audit log.
  var isOfAudit: Bool { isRecord || self == .refusal }

  /// The number of bytes that may wait, of lines or of records, with one of this rank.
  func room(in capacity: Int) -> Int {
    switch self {
    case .access, .grant: capacity / 2
    case .refusal: capacity / 4 * 3
    case .tokenGrant: capacity / 16 * 15
    case .message, .keyEvent: capacity
    }
  }
}

/// Which lines a log has. A reload may change it at any time, and every line asks it, so there is no lock.
package final class LogFilter: Sendable {
  private let leastLevel = Atomic(0)
  /// The bits of the part of all requests that have a line.
  private let accessPart = Atomic<UInt64>(0)

  package init(level: Logger.Level = .info, access: Double = 1) { set(level: level, access: access) }

  /// - Parameter access: The part of the requests without an error that have an access line, from 0 to 1.
  package func set(level: Logger.Level, access: Double) {
    leastLevel.store(Self.index(of: level), ordering: .relaxed)
    accessPart.store(access.bitPattern, ordering: .relaxed)
  }

  /// In order. `allCases` makes a new array each time.
  private static let levels = Logger.Level.allCases

  private static func index(of level: Logger.Level) -> Int { levels.firstIndex(of: level) ?? 0 }

  package var level: Logger.Level { Self.levels[leastLevel.load(ordering: .relaxed)] }
  /// Whether the log has lines of requests and decisions at all.
  package var hasRequests: Bool { leastLevel.load(ordering: .relaxed) <= Self.info }
  private static let info = index(of: .info)

  /// Whether a request has an access line. Errors always have one. The choice depends on the trace, by the rule of spans, so
  /// that services with one part have lines of the same requests.
  package func hasAccessLine(status: Int, of trace: RequestTrace) -> Bool {
    guard hasRequests else { return false }
    let part = Double(bitPattern: accessPart.load(ordering: .relaxed))
    return part >= 1 || status >= 400 || Sampler(.ratio(part), isParentBased: false).records(trace)
  }
}
