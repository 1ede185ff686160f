public import EventLoop
import Glibc
import HTTPMessages

/// An Apple Music API to test against: it refuses what Apple refuses, knows one true album and many made-up ones, and
/// goes wrong on demand.
///
/// All loops share one. It holds no sockets: ``response(_:)`` is a function of the request, the time, and a little state
/// (rates, libraries, faults, the log of requests), all of it bounded.
public final class Sandbox: Sendable {
  private let options: SandboxOptions
  private let clock: SandboxClock
  private let catalog = Catalog.builtIn
  private let judge: TokenJudge
  private let meter: RateMeter
  private let board: FaultBoard
  private let log = RequestLog()
  private let made = MadeResponses()
  private let libraries: [String: UserLibrary]
  private let identifiers = ErrorIdentifiers()

  /// An emulator without any requests behind it.
  public init(_ options: SandboxOptions, clock: SandboxClock = .system) {
    self.options = options
    self.clock = clock
    judge = TokenJudge(keys: options.keys)
    meter = RateMeter(options.limit)
    let skews = SandboxOptions.clockSkews
    board = FaultBoard(
      standing: options.faults, clockSkew: min(max(options.clockSkew, skews.lowerBound), skews.upperBound),
      latency: options.delay, retryAfter: options.retryAfter)
    libraries = Dictionary(options.userTokens.map { ($0, UserLibrary()) }) { first, _ in first }
  }

  /// The response to a request, and how it is to be sent.
  public func respond(_ request: SandboxRequest) -> SandboxResponse {
    let segments = request.segments
    switch segments?.first {
    case "sandbox":
      return caught { () throws(AppleError) in
        try ControlEndpoint(board: board, meter: meter, log: log, options: options).respond(request, segments ?? [])
      }
    case "image":
      return caught { () throws(AppleError) in
        try PictureEndpoint.respond(request, segments?.dropFirst() ?? [], catalog: catalog)
      }
    default: return apple(request, segments ?? [])
    }
  }

  // MARK: Apple's part

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
        return try respond(to: request, segments, verdict, user, now: now)
      }
    response.delivery.delay = board.latency
    for fault in faults { fault.apply(to: &response) }
    finish(&response)
    log.note(request, token: verdict.summary, user: user.summary, status: response.status, faults: faults)
    return response
  }

  private func respond(
    to request: SandboxRequest, _ segments: [String], _ verdict: TokenVerdict, _ user: APIRequest.UserAccess, now: Int
  ) throws(AppleError) -> SandboxResponse {
    if request.method == "OPTIONS" { return .preflight }
    guard case .accepted(let team, _, _) = verdict else { return .unauthorized }
    if let wait = meter.refusal(team, now: clock.now()) { return rateLimited(wait, now: now) }
    guard segments.first == "v1" else { throw .pathNotFound }
    let api = APIRequest(
      method: request.method, segments: segments.dropFirst(), query: try Query(request.query),
      content: request.content, catalog: catalog, base: base(request), user: user)
    switch (api.segments.first, api.segments.count) {
    case ("me", _): return try MeEndpoint(api, now: now).respond()
    case ("test", 1):
      try api.require("GET", "HEAD")
      return SandboxResponse(200)
    default: return try cacheable(request, api)
    }
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

  /// What depends on nothing but the request, so that it is made once.
  private func cacheable(_ request: SandboxRequest, _ api: APIRequest) throws(AppleError) -> SandboxResponse {
    var response = try made.respond(to: request, base: api.base, isPersonal: api.isPersonal) { () throws(AppleError) in
      var response = SandboxResponse.json(try document(api))
      options.cacheFields.resolved(api.segments).mark(&response, isWeak: options.compresses)
      return response
    }
    CacheFields.leaveOut(&response, knownTo: request)
    if options.compresses { Compression.apply(to: &response, for: request) }
    return response
  }

  private func document(_ api: APIRequest) throws(AppleError) -> Document {
    switch api.segments.first {
    case "catalog": return try CatalogEndpoint(api).respond()
    case "storefronts": return try StorefrontEndpoint(request: api).storefronts()
    case "language": return try StorefrontEndpoint(request: api).bestLanguage()
    default: throw .pathNotFound
    }
  }

  /// Adds what Apple's responses have: anybody's page may read them, and the time is the emulator's.
  private func finish(_ response: inout SandboxResponse) {
    response.fields.append(SandboxField("Access-Control-Allow-Origin", "*"))
    if board.clockSkew != 0 { response.fields.set("Date", IMFFixdate.text(now)) }
  }

  private var now: Int { clock.seconds() + board.clockSkew }

  private func base(_ request: SandboxRequest) -> String {
    options.baseURL ?? "http://\(request.authority.isEmpty ? "localhost" : request.authority)"
  }

  private func user(_ request: SandboxRequest) -> APIRequest.UserAccess {
    guard let token = request.fields.single("music-user-token") else { return .unknown }
    if let library = libraries[token] { return .user(library) }
    return options.unsubscribedUserTokens.contains(token) ? .withoutSubscription : .unknown
  }

  private func caught(_ body: () throws(AppleError) -> SandboxResponse) -> SandboxResponse {
    do { return try body() } catch { return error.respond(id: identifiers.next()) }
  }
}

extension SandboxResponse {
  /// The response to a CORS preflight request: Apple lets every page ask.
  fileprivate static let preflight = SandboxResponse(
    200,
    fields: [
      SandboxField("Access-Control-Allow-Headers", "Authorization, Content-Type, Music-User-Token, X-Sandbox-Fault"),
      SandboxField("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE"),
      SandboxField("Access-Control-Max-Age", "600"),
    ])
}

extension APIRequest.UserAccess {
  /// For the log of requests, in place of the token.
  fileprivate var summary: String {
    switch self {
    case .user: "good"
    case .withoutSubscription: "without subscription"
    case .unknown: "unknown"
    }
  }
}

/// How the emulator behaves.
public struct SandboxOptions: Sendable {
  /// The keys whose tokens are good. None makes every response a 401.
  public var keys: [TrustedKey]
  /// Music user tokens that are good. Each has a library of its own.
  public var userTokens = ["sandbox-user-token"]
  /// Music user tokens of users without a subscription, who get 403 with code 40015.
  public var unsubscribedUserTokens = ["sandbox-user-token-without-subscription"]
  /// How many requests a team may make before it gets 429; nil for any number, since Apple's is not known.
  public var limit: RequestLimit?
  /// What a 429 of that limit says about when to come back.
  public var retryAfter = RetryAfterForm.none
  /// How long nothing happens before each response; none, so that tests are fast.
  public var delay = Duration.zero
  /// Seconds that the emulator's clock, and so its `Date`, is ahead of the machine's; behind if negative. Brought into
  /// ``clockSkews`` if it is outside.
  public var clockSkew = 0
  /// What responses say about caching; each of the ways somewhere, since Apple's is not known.
  public var cacheFields = CacheFields.mixed
  /// Whether responses are compressed for clients that accept gzip. They are not by default, so that they can be read off the wire.
  public var compresses = false
  /// Faults that every request under `/v1/` has; none.
  public var faults: [Fault] = []
  /// What the URLs of pictures begin with, such as `https://localhost:8443`; nil for `http://` and the request's host.
  public var baseURL: String?

  /// How far the clock can be off, in seconds: some 30 years, so that sums of times cannot overflow.
  public static let clockSkews = -1_000_000_000...1_000_000_000

  /// The defaults, and these keys.
  public init(keys: [TrustedKey] = []) {
    self.keys = keys
  }
}

/// Where the emulator has its time from.
public struct SandboxClock: Sendable {
  /// Seconds since 1970, before any skew.
  public var seconds: @Sendable () -> Int
  /// A time that only goes forward, for rates.
  public var now: @Sendable () -> Deadline

  /// A clock.
  public init(seconds: @escaping @Sendable () -> Int, now: @escaping @Sendable () -> Deadline) {
    (self.seconds, self.now) = (seconds, now)
  }

  /// The machine's clocks.
  public static let system = SandboxClock(seconds: { Glibc.time(nil) }, now: { .now })
}
