import Bytes
import DequeModule
import DeveloperToken
import HTTP1
import HTTPMessages
import HTTPTypes
import JSON
import Locks

/// An emulator of the Apple Music API, with one real album, many invented ones, and faults on request. All loops share it.
/// ``respond(_:)`` is a function of the request, the time, and a bounded state (rates, libraries, faults, the log).
package final class Sandbox: Sendable {
  private let options: SandboxOptions
  private let clock: SandboxClock
  private let judge: TokenJudge
  private let board: FaultBoard
  private let log = RequestLog()
  /// The responses of the catalog, which depend only on target and host, and cost most of a request. The limit: bytes.
  private let made = Memo<ByteString, SandboxResponse>(limit: 16 << 20)
  private let libraries: [String: UserLibrary]
  private let identifiers = Locked(SplitMix64(state: 0x4D75_7369_63))

  package init(_ options: SandboxOptions, clock: SandboxClock = .system) {
    (self.options, self.clock) = (options, clock)
    judge = TokenJudge(keys: options.keys)
    board = FaultBoard(options)
    libraries = options.userTokens.reduce(into: [:]) { $0[$1] = UserLibrary(options.catalog) }
  }

  /// How often a test has changed the faults, which ends the delays in progress.
  package var faultChanges: Int { board.changes }

  package func respond(_ request: SandboxRequest) -> SandboxResponse {
    let segments = request.segments
    switch segments.first {
    case "sandbox": return caught { () throws(AppleError) in try control(request) }
    case "image": return caught { () throws(AppleError) in try options.catalog.picture(request) }
    default: return apple(request, segments)
    }
  }

  private func caught(_ body: () throws(AppleError) -> SandboxResponse) -> SandboxResponse {
    do { return try body() } catch { return SandboxResponse(error, id: errorIdentifier()) }
  }

  /// Returns 26 characters of base32 (RFC 4648 §6), as Apple's. They differ within a run, and are the same in every run.
  private func errorIdentifier() -> String {
    let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
    return identifiers.withLock { numbers in String((0..<26).map { _ in letters[Int(numbers.next() % 32)] }) }
  }

  private func apple(_ request: SandboxRequest, _ segments: [String]) -> SandboxResponse {
    let present = board.options
    let now = clock.seconds() + present.clockSkew
    let (faults, mistake) = board.faults(for: request)
    let token = judge.verdict(request.fields, now: now)
    let (library, user) = library(of: request)
    var response =
      faults.lazy.compactMap { $0.replacement(id: self.errorIdentifier()) }.first
      ?? caught { () throws(AppleError) in
        if let mistake { throw mistake }
        if request.method == "OPTIONS" { return .preflight }
        guard case .success(let token) = token else { return .unauthorized }
        if let wait = board.wait(token.key.team.description, now: clock.now()) {
          return rateLimited(wait, present.retryAfter, now: now)
        }
        guard segments.first == "v1" else { throw .init(.pathNotFound) }
        let base = options.baseURL ?? "http://\(request.authority.isEmpty ? "localhost" : request.authority)"
        return try respond(
          to: request,
          APIRequest(
            method: request.method, segments: Array(segments.dropFirst()), query: try Query(request.query),
            content: request.content, catalog: options.catalog, base: base, library: library,
            allowsChanges: faults.contains { $0.kind == .libraryChanges }, now: now))
      }
    (response.latency, response.faults) = (present.latency, faults)
    if faults.contains(where: { $0.kind == .foreignFields }) { response.fields += Fault.foreign }
    // Every page may read Apple's responses, and `Date` shows the emulator's time.
    response.fields.append(HTTPField(name: .accessControlAllowOrigin, value: "*"))
    if present.clockSkew != 0 { response.fields[.date] = HTTPDate.text(now) }
    log.note(request, token: token.summary(now), user: user, response)
    return response
  }

  private func respond(to request: SandboxRequest, _ api: APIRequest) throws(AppleError) -> SandboxResponse {
    let isShared = !api.isPersonal && api.segments != ["test"]
    let key = ByteString("\(request.method) \(request.target) \(api.base)")
    var response: SandboxResponse
    if isShared, let known = made[key] {
      response = known
    } else {
      let (status, document) = try api.respond()
      response = SandboxResponse(status, document)
      if isShared {
        options.cacheFields.resolved(api.segments).mark(&response)
        made.remember(response, for: key, cost: key.count + response.content.count)
      }
    }
    CacheFields.leaveOut(&response, knownTo: request)
    return response
  }

  private func rateLimited(_ wait: UInt64, _ form: RetryAfterForm, now: Int) -> SandboxResponse {
    var response = SandboxResponse.rateLimited
    let delay = max(Int(clamping: (wait + 999_999_999) / 1_000_000_000), 1)
    if form != .none { response.fields[.retryAfter] = form == .date ? HTTPDate.text(now + delay) : "\(delay)" }
    return response
  }

  /// Returns the library of the user, and the text that replaces the music user token in the log of requests.
  private func library(of request: SandboxRequest) -> (Result<UserLibrary, AppleError>, user: String) {
    // The field has an older name, which some clients still send.
    let tokens = request.fields.plain(.literal("Music-User-Token")) + request.fields.plain(.literal("Media-User-Token"))
    let token = tokens.count == 1 ? tokens[0] : ""
    if let library = libraries[token] { return (.success(library), "good") }
    guard options.unsubscribedUserTokens.contains(token) else { return (.failure(.init(.invalidUserToken)), "unknown") }
    return (.failure(.init(.noSubscription)), "without subscription")
  }

  /// The endpoints `/sandbox/faults` and `/sandbox/log`, for tests: without a token, and without an entry in the log.
  private func control(_ request: SandboxRequest) throws(AppleError) -> SandboxResponse {
    switch (Array(request.segments.dropFirst()), request.method) {
    case (["faults"], "GET"), (["faults"], "HEAD"): break
    case (["faults"], "PUT"): try board.set(request.content)
    case (["faults"], "DELETE"): board.reset()
    case (["faults"], _): throw .init(.methodNotAllowed, allow: "GET, HEAD, PUT, DELETE")
    case (["log"], "GET"), (["log"], "HEAD"): return SandboxResponse(200, log.document)
    case (["log"], "DELETE"):
      log.clear()
      return SandboxResponse(204)
    case (["log"], _): throw .init(.methodNotAllowed, allow: "GET, HEAD, DELETE")
    default: throw .init(.pathNotFound)
    }
    return SandboxResponse(200, board.document)
  }
}

/// Checks the developer tokens of requests. Apple's response to a refused token is always 401 with an empty body.
struct TokenJudge: Sendable {
  typealias Judgement = Result<AcceptedToken, AcceptedToken.Refusal>

  private let keys: [TrustedKey]
  /// The verdicts on the last tokens, because a verification costs more than the rest of a request. One holds for a
  /// second, in which no time in a token passes. An app uses one token at a time, a test a few.
  private let verdicts = Memo<ByteString, (now: Int, verdict: Judgement)>(limit: 64)

  init(keys: [TrustedKey]) { self.keys = keys }

  /// - Parameter now: The emulator's time in seconds since 1970.
  func verdict(_ fields: HTTPFields, now: Int) -> Judgement {
    let values = fields.plain(.authorization)
    guard let value = values.first else { return .refused("the request has no Authorization") }
    guard values.count == 1 else { return .refused("the request has several Authorization fields") }
    guard value.lowercased().hasPrefix("bearer ") else { return .refused("Authorization is not Bearer") }
    let verdict = verdict(ByteString(value.dropFirst("bearer ".count)), now: now)
    guard case .success(let token) = verdict, !token.origins.isEmpty else { return verdict }
    guard let origin = fields.single(.origin) else { return .refused("claims.origin: the request has no Origin") }
    // Like Apple, it compares bytes and expands no wildcard.
    guard token.origins.contains(where: { $0 == origin }) else {
      return .refused("claims.origin: the claim does not name the request's Origin")
    }
    return verdict
  }

  private func verdict(_ compact: ByteString, now: Int) -> Judgement {
    if let known = verdicts[compact], known.now == now { return known.verdict }
    let verdict = Judgement { () throws(AcceptedToken.Refusal) in try AcceptedToken(compact.bytes, of: keys, now: now) }
    verdicts.remember((now, verdict), for: compact)
    return verdict
  }
}

extension TokenJudge.Judgement {
  fileprivate static func refused(_ reason: String) -> Self { .failure(.init(reason)) }

  /// The text that replaces the token in the log of requests.
  func summary(_ now: Int) -> String {
    switch self {
    case .success(let token): "accepted: team \(token.key.team), key \(token.key.keyID), \(token.expiry - now) s left"
    case .failure(let refusal): "refused: \(refusal.reason)"
    }
  }
}

/// A log of the last requests, so that a test sees what a proxy sent to “Apple”. It contains no credentials.
final class RequestLog: Sendable {
  /// The maximum number of requests, of fields in a request, and of bytes in a value.
  static let most = (requests: 256, fields: 64, value: 512)

  private let state = Locked(State())

  private struct State {
    var entries: Deque<JSONValue> = []
    var count = 0
    var statuses: [Int: Int] = [:]
  }

  /// Notes a request, with texts that replace its developer token and its music user token.
  func note(_ request: SandboxRequest, token: String, user: String, _ response: SandboxResponse) {
    let fields = request.fields.prefix(Self.most.fields).map { field -> JSONValue in
      let text =
        switch field.name.canonicalName {
        case "authorization": token
        case "music-user-token", "media-user-token": user
        case "cookie", "proxy-authorization", "x-api-key": "present, \(field.value.utf8.count) bytes"
        default: Self.shortened(field.value)
        }
      return ["name": .text(field.name.rawName), "value": .text(text)]
    }
    let faults = response.faults.isEmpty ? nil : JSONValue.strings(response.faults.map(\.description))
    state.withLock { state in
      state.count += 1
      state.statuses[response.status, default: 0] += 1
      if state.entries.count == Self.most.requests { state.entries.removeFirst() }
      state.entries.append(
        .object(of: [
          ("number", .whole(state.count)), ("method", .text(request.method)),
          ("path", .text(Self.shortened(request.path))), ("query", request.query.map { .text(Self.shortened($0)) }),
          ("authority", .text(request.authority)), ("protocol", .text(request.protocolName)),
          ("fields", .array(fields)), ("contentLength", .whole(request.content.count)),
          ("developerToken", .text(token)), ("status", .whole(response.status)), ("faults", faults),
        ]))
    }
  }

  func clear() { state.withLock { $0 = State() } }

  var document: JSONValue {
    let state = state.withLock { $0 }
    let statuses = state.statuses.sorted { $0.key < $1.key }.map { ("\($0.key)", JSONValue?.some(.whole($0.value))) }
    return [
      "count": .whole(state.count), "statuses": .object(of: statuses), "requests": .array(Array(state.entries)),
    ]
  }

  private static func shortened(_ text: String) -> String {
    text.utf8.count <= Self.most.value ? text : "\(text.prefix(Self.most.value))… (\(text.utf8.count) bytes)"
  }
}
