public import EventLoop
import Glibc
import HTTPMessages
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
  private let meter: RateMeter
  private let board: FaultBoard
  private let log = RequestLog()
  private let made = MadeResponses()
  private let libraries: [String: UserLibrary]
  private let identifiers = ErrorIdentifiers()

  /// Creates an emulator that has not received any request.
  public init(_ options: SandboxOptions, clock: SandboxClock = .system) {
    self.options = options
    self.clock = clock
    judge = TokenJudge(keys: options.keys)
    meter = RateMeter(options.limit)
    let skews = SandboxOptions.clockSkews
    board = FaultBoard(
      standing: options.faults, clockSkew: min(max(options.clockSkew, skews.lowerBound), skews.upperBound),
      latency: options.delay, retryAfter: options.retryAfter)
    let libraries = options.userTokens.map { ($0, UserLibrary(options.catalog ?? .builtIn)) }
    self.libraries = Dictionary(libraries) { first, _ in first }
  }

  /// Returns the response to a request, and the way to send it.
  public func respond(_ request: SandboxRequest) -> SandboxResponse {
    let segments = request.segments
    switch segments?.first {
    case "sandbox":
      return caught { () throws(AppleError) in
        try ControlEndpoint(board: board, meter: meter, log: log, options: options).respond(request, segments ?? [])
      }
    case "image":
      return caught { () throws(AppleError) in
        try PictureEndpoint.respond(request, segments?.dropFirst() ?? [], catalog: options.catalog ?? .builtIn)
      }
    default: return apple(request, segments ?? [])
    }
  }

  // MARK: Apple's API

  private func apple(_ request: SandboxRequest, _ segments: [String]) -> SandboxResponse {
    let now = self.now
    let (faults, mistake) = board.faults(for: request)
    let verdict = judge.verdict(on: request.fields, now: now)
    let user = user(request)
    let id = identifiers.next()
    var response =
      faults.lazy.compactMap { $0.replacement(id: id) }.first
      ?? caught { () throws(AppleError) in
        if let mistake { throw mistake }
        return try respond(
          to: request, segments, verdict, user, allowsChanges: faults.contains(.libraryChanges), now: now)
      }
    response.delivery.delay = board.latency
    for fault in faults { fault.apply(to: &response) }
    finish(&response)
    log.note(request, token: verdict.summary, user: user.summary, status: response.status, faults: faults)
    return response
  }

  private func respond(
    to request: SandboxRequest, _ segments: [String], _ verdict: TokenVerdict, _ user: APIRequest.UserAccess,
    allowsChanges: Bool, now: Int
  ) throws(AppleError) -> SandboxResponse {
    if request.method == "OPTIONS" { return .preflight }
    guard case .accepted(let team, _, _) = verdict else { return .unauthorized }
    if let wait = meter.refusal(team, now: clock.now()) { return rateLimited(wait, now: now) }
    guard segments.first == "v1" else { throw .pathNotFound }
    let api = APIRequest(
      method: request.method, segments: Array(segments.dropFirst()), query: try Query(request.query),
      content: request.content, catalog: options.catalog ?? .builtIn, base: base(request), user: user,
      allowsChanges: allowsChanges, now: now)
    return try shared(request, api)
  }

  private func rateLimited(_ wait: Duration, now: Int) -> SandboxResponse {
    var response = SandboxResponse.rateLimited
    let (seconds, rest) = wait.components
    let delay = max(Int(clamping: seconds) + (rest > 0 ? 1 : 0), 1)
    switch board.retryAfter {
    case .none: break
    case .seconds: response.fields.append(SandboxField("Retry-After", "\(delay)"))
    case .date: response.fields.append(SandboxField("Retry-After", IMFFixdate.text(now + delay)))
    }
    return response
  }

  /// Returns the response. One that depends only on the request is created only once.
  private func shared(_ request: SandboxRequest, _ api: APIRequest) throws(AppleError) -> SandboxResponse {
    let isShared = !api.isPersonal && api.segments != ["test"]
    var response = try made.respond(to: request, base: api.base, isShared: isShared) { () throws(AppleError) in
      var response = SandboxResponse(try api.respond())
      if isShared { options.cacheFields.resolved(api.segments[...]).mark(&response) }
      return response
    }
    CacheFields.leaveOut(&response, knownTo: request)
    return response
  }

  /// Adds the fields of Apple's responses: every page may read them, and `Date` shows the emulator's time.
  private func finish(_ response: inout SandboxResponse) {
    response.fields.append(SandboxField("Access-Control-Allow-Origin", "*"))
    if board.clockSkew != 0 { response.fields.set("Date", IMFFixdate.text(now)) }
  }

  private var now: Int { clock.seconds() + board.clockSkew }

  private func base(_ request: SandboxRequest) -> String {
    options.baseURL ?? "http://\(request.authority.isEmpty ? "localhost" : request.authority)"
  }

  private func user(_ request: SandboxRequest) -> APIRequest.UserAccess {
    // The field has an older name, which some clients still send.
    let names = ["music-user-token", "media-user-token"]
    let tokens = names.flatMap(request.fields.values)
    guard tokens.count == 1, let token = tokens.first else { return .unknown }
    if let library = libraries[token] { return .user(library) }
    return options.unsubscribedUserTokens.contains(token) ? .withoutSubscription : .unknown
  }

  private func caught(_ body: () throws(AppleError) -> SandboxResponse) -> SandboxResponse {
    do { return try body() } catch { return error.respond(id: identifiers.next()) }
  }
}

extension SandboxResponse {
  /// The response to a CORS preflight request. Apple allows every page.
  fileprivate static let preflight = SandboxResponse(
    200,
    fields: [
      SandboxField("Access-Control-Allow-Headers", "Authorization, Content-Type, Music-User-Token, X-Sandbox-Fault"),
      SandboxField("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE"),
      SandboxField("Access-Control-Max-Age", "600"),
    ])
}

extension APIRequest.UserAccess {
  /// The text that replaces the token in the log of requests.
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
