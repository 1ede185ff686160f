import Bytes
public import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPTypes
import JSON
import Locks
public import MusicCatalog

/// An emulator of the Apple Music API for tests. It refuses what Apple refuses, has one real album and many invented
/// ones, and produces faults on request.
///
/// All loops share one emulator. It has no sockets: ``respond(_:)`` is a function of the request, the time, and a
/// bounded state (rates, libraries, faults, the log of requests).
public final class Sandbox: Sendable {
  private let options: SandboxOptions
  private let clock: SandboxClock
  private let judge: TokenJudge
  private let board: FaultBoard
  private let log = RequestLog()
  private let made = MadeResponses()
  private let libraries: [String: UserLibrary]
  private let identifiers = Locked(SplitMix64(state: 0x4D75_7369_63))

  /// Creates an emulator that has not received any request.
  public init(_ options: SandboxOptions, clock: SandboxClock = .system) {
    var options = options
    let skews = SandboxOptions.clockSkews
    options.clockSkew = min(max(options.clockSkew, skews.lowerBound), skews.upperBound)
    self.options = options
    self.clock = clock
    judge = TokenJudge(keys: options.keys)
    board = FaultBoard(options)
    let libraries = options.userTokens.map { [options] token in (token, UserLibrary(options.resources)) }
    self.libraries = Dictionary(libraries) { first, _ in first }
  }

  /// Returns the response to a request, and the way to send it.
  public func respond(_ request: SandboxRequest) -> SandboxResponse {
    let segments = request.segments ?? []
    switch segments.first {
    case "sandbox": return caught { () throws(AppleError) in try control(request, segments.dropFirst()) }
    case "image":
      return caught { () throws(AppleError) in
        try PictureEndpoint.respond(request, segments.dropFirst(), catalog: options.resources)
      }
    default: return apple(request, segments)
    }
  }

  private func caught(_ body: () throws(AppleError) -> SandboxResponse) -> SandboxResponse {
    do { return try body() } catch { return SandboxResponse(error, id: errorIdentifier()) }
  }

  private static let base32 = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")

  /// Returns an identifier in the form of Apple's: 26 characters of base32 (RFC 4648 §6). They differ within a run, and
  /// are the same in every run.
  private func errorIdentifier() -> String {
    identifiers.withLock { numbers in String((0..<26).map { _ in Self.base32[Int(numbers.next() % 32)] }) }
  }

  // MARK: Apple's API

  private func apple(_ request: SandboxRequest, _ segments: [String]) -> SandboxResponse {
    let present = board.options
    let now = clock.seconds() + present.clockSkew
    let (faults, mistake) = board.faults(for: request)
    let token = Result { () throws(TokenJudge.Refusal) in try judge.token(request.fields, now: now) }
    let user = user(request)
    var response =
      faults.lazy.compactMap { $0.replacement(id: self.errorIdentifier()) }.first
      ?? caught { () throws(AppleError) in
        if let mistake { throw mistake }
        if request.method == "OPTIONS" { return .preflight }
        guard case .success(let token) = token else { return .unauthorized }
        if let wait = board.refusal(token.team, now: clock.now()) {
          return rateLimited(wait, present.retryAfter, now: now)
        }
        guard segments.first == "v1" else { throw .init(.pathNotFound) }
        let base = options.baseURL ?? "http://\(request.authority.isEmpty ? "localhost" : request.authority)"
        return try respond(
          to: request,
          APIRequest(
            method: request.method, segments: Array(segments.dropFirst()), query: try Query(request.query),
            content: request.content, catalog: options.resources, base: base, user: user,
            allowsChanges: faults.contains { $0.kind == .libraryChanges }, now: now))
      }
    (response.latency, response.faults) = (present.delay, faults)
    if faults.contains(where: { $0.kind == .foreignFields }) { response.fields += Fault.foreign }
    // Every page may read Apple's responses, and `Date` shows the emulator's time.
    response.fields.append(HTTPField(name: .accessControlAllowOrigin, value: "*"))
    if present.clockSkew != 0 { response.fields[.date] = HTTPDate.text(now) }
    log.note(request, token: token.summary(now), user: user.summary, status: response.status, faults: faults)
    return response
  }

  /// Returns the response. One that depends only on the request is created only once.
  private func respond(to request: SandboxRequest, _ api: APIRequest) throws(AppleError) -> SandboxResponse {
    let isShared = !api.isPersonal && api.segments != ["test"]
    var response = try made.respond(to: request, base: api.base, isShared: isShared) { () throws(AppleError) in
      let (status, document) = try api.respond()
      var response = SandboxResponse(status, document)
      if isShared { options.cacheFields.resolved(api.segments[...]).mark(&response) }
      return response
    }
    CacheFields.leaveOut(&response, knownTo: request)
    return response
  }

  private func rateLimited(_ wait: Duration, _ form: RetryAfterForm, now: Int) -> SandboxResponse {
    var response = SandboxResponse.rateLimited
    let (seconds, rest) = wait.components
    let delay = max(Int(clamping: seconds) + (rest > 0 ? 1 : 0), 1)
    switch form {
    case .none: break
    case .seconds: response.fields[.retryAfter] = "\(delay)"
    case .date: response.fields[.retryAfter] = HTTPDate.text(now + delay)
    }
    return response
  }

  private func user(_ request: SandboxRequest) -> APIRequest.UserAccess {
    // The field has an older name, which some clients still send.
    let tokens = request.fields.plain(.literal("Music-User-Token")) + request.fields.plain(.literal("Media-User-Token"))
    guard tokens.count == 1, let token = tokens.first else { return .unknown }
    if let library = libraries[token] { return .user(library) }
    return options.unsubscribedUserTokens.contains(token) ? .withoutSubscription : .unknown
  }

  // MARK: Control by tests

  /// The endpoints `/sandbox/faults` and `/sandbox/log`, for tests. They require no token, and the emulator does not log
  /// their requests.
  private func control(
    _ request: SandboxRequest, _ segments: ArraySlice<String>
  ) throws(AppleError) -> SandboxResponse {
    switch (segments, request.method) {
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
    let state = board.current
    return SandboxResponse(
      200,
      [
        "faults": .array(state.rules.map(\.document)), "clockSkew": .whole(state.options.clockSkew),
        "admitted": .whole(state.admitted), "limited": .whole(state.limited),
      ])
  }
}

/// The texts that replace credentials in the log of requests.
extension Result where Success == AcceptedToken, Failure == TokenJudge.Refusal {
  fileprivate func summary(_ now: Int) -> String {
    switch self {
    case .success(let token):
      "accepted: team \(token.team), key \(token.keyID), \(token.times.upperBound - now) s left"
    case .failure(let refusal): "refused: \(refusal.reason)"
    }
  }
}

extension APIRequest.UserAccess {
  fileprivate var summary: String {
    switch self {
    case .user: "good"
    case .withoutSubscription: "without subscription"
    case .unknown: "unknown"
    }
  }
}

/// The options of the emulator.
public struct SandboxOptions: Sendable {
  /// The keys of valid tokens. If empty, every response is 401.
  public var keys: [TrustedKey]
  /// The valid music user tokens. Each has its own library.
  public var userTokens = ["sandbox-user-token"]
  /// The music user tokens of users without a subscription, which get 403 with code 40015.
  public var unsubscribedUserTokens = ["sandbox-user-token-without-subscription"]
  /// The limit beyond which a team gets 429; nil for none, because Apple's limit is unknown.
  public var limit: RequestLimit?
  /// The form of `Retry-After` in a 429 of that limit.
  public var retryAfter = RetryAfterForm.none
  /// The delay before each response; zero by default, so that tests are fast.
  public var delay = Duration.zero
  /// The seconds by which the emulator's clock, and so its `Date`, is ahead of the machine's; negative if behind. A
  /// value outside of ``clockSkews`` is clamped.
  public var clockSkew = 0
  /// The caching fields of responses. The default mixes all forms, because Apple's are unknown.
  public var cacheFields = CacheFields.mixed
  /// The faults of every request under `/v1/`; none by default.
  public var faults: [Fault] = []
  /// The resources; nil for those in the program, which are read when the first request needs them.
  public var catalog: Catalog?
  /// The beginning of picture URLs, such as `https://localhost:8443`; nil for `http://` and the request's host.
  public var baseURL: String?

  /// The range of the clock's offset in seconds: some 30 years, so that sums of times cannot overflow.
  public static let clockSkews = -1_000_000_000...1_000_000_000

  /// Creates the default options with these keys.
  public init(keys: [TrustedKey] = []) {
    self.keys = keys
  }

  var resources: Catalog { catalog ?? .builtIn }
}

/// The source of the emulator's time.
public struct SandboxClock: Sendable {
  /// Returns the seconds since 1970, before any offset.
  public var seconds: @Sendable () -> Int
  /// Returns the monotonic time, for rates.
  public var now: @Sendable () -> Deadline

  /// Creates a clock.
  public init(seconds: @escaping @Sendable () -> Int, now: @escaping @Sendable () -> Deadline) {
    (self.seconds, self.now) = (seconds, now)
  }

  /// The machine's clocks.
  public static let system = SandboxClock(seconds: { Glibc.time(nil) }, now: { .now })
}
