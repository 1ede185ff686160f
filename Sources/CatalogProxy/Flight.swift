import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// The state machine of a flight, which is one request to Apple with all its attempts, and the callers that wait for it. It
/// maps events to actions, without a lock, a socket or a clock. ``FlightDriver`` reports the events and performs the actions.
///
/// Requests that callers share, that a single caller makes, and whose response passes through take the same way. In each
/// phase (docs/architecture.md) a flight waits for something, and an event ends the wait:
///
/// | phase | waits for | action | events that follow |
/// | --- | --- | --- | --- |
/// | 2 parse | the content of the caller's request | `collect` | `collected`, `interrupted`, `failed` |
/// | 3 lookUp | a response in the replicas' store | `lookUp` | `found`, `notFound`, `interrupted` |
/// | 5 admit | a turn | `admit` | `admitted`, `lacksToken`, `failed`, `interrupted` |
/// | 6 authorize | a new developer token | `mint` | `admitted`, `failed` |
/// | 7 send | Apple's response | `send` | `responded`, `unauthorized`, `retry`, `rejected`, `failed`, `interrupted` |
/// | 8 evaluate | a verdict on the developer token | `test` | `tested` |
/// | | another token | `renew` | `renewed` |
/// | | a pause | `pause` | `paused`, `interrupted` |
/// | | the words of an error | `fail401`, `readWords` | `rejected`, `failed` |
/// | 9 store | the content of the response | `store`, `pass` | `stored`, `mismatched`, `failed`, `interrupted` |
/// | 10 reply | nothing: the callers have the outcome | `complete`, `giveUp` | |
///
/// Phases 1 to 4 end before a flight begins, except that content arrives during it (2, for want of a number of its own),
/// and that the replicas' store is one more place to look up.
struct Flight: Sendable {
  /// The phases, by their numbers.
  enum Phase: Int, Sendable {
    case parse = 2
    case lookUp, admit = 5
    case authorize, send, evaluate, store, reply
  }

  /// What happens to the response.
  enum Kind: Sendable {
    /// It is stored, and goes to every caller that has joined the flight.
    case shared(FlightID)
    /// It is stored, and goes to one caller.
    case single
    /// It passes to one caller part by part, and is not stored.
    case passed
  }

  /// What happens. Rare events are indirect, so that the others are small.
  enum Event: Sendable {
    /// As much of the request's content as the server keeps has arrived.
    case collected
    /// The store has a fresh response.
    case found(StoredResponse)
    /// The store has none. This one may be validated.
    case notFound(validating: StoredResponse?)
    /// The request has a turn, and there is no token for it.
    indirect case lacksToken(ConcurrencyPermit, UpstreamCircuit.Pass)
    /// The request has a turn and a token.
    case admitted
    /// Apple's response is for the callers.
    case responded
    /// Apple's response is 401. `isForUser`: the response depends on a user. `hasNewClock`: the wall clock was set after
    /// the token was minted.
    case unauthorized(isForUser: Bool, hasNewClock: Bool)
    /// `/v1/test` has shown whether Apple accepts the token.
    case tested(TokenVerdict)
    /// Whether there is another token to send.
    case renewed(Bool)
    /// The policy allows another attempt. `limited`: what Apple said with 429.
    indirect case retry(after: Duration, limited: ReplacedResponse?)
    /// The policy allows another attempt after a failure, and no further one after another failure.
    case retryOnce(after: Duration)
    case paused
    /// Apple's response is not for the callers.
    indirect case rejected(UpstreamFailure)
    /// There is no response, and no further attempt.
    indirect case failed(UpstreamFailure)
    /// Apple's 304 is about another version than the stored response.
    case mismatched
    /// The response is complete, or streamed.
    case stored(Outcome)
    /// A wait was cancelled. `byCaller`: the content of the caller's request has broken off.
    case interrupted(byCaller: Bool)
  }

  /// What the driver does.
  enum Action: Sendable {
    case collect
    case lookUp
    case admit
    indirect case mint(ConcurrencyPermit, UpstreamCircuit.Pass)
    case send
    /// Ask `/v1/test` whether Apple accepts the token.
    case test
    /// Look for another token to send.
    case renew
    case pause(Duration)
    /// Fail because of a 401. `isOfToken`: Apple refuses every token, not only this request.
    case fail401(isOfToken: Bool)
    /// Read what Apple says about a failure.
    indirect case readWords(UpstreamFailure)
    case store
    /// Pass the response on while it arrives.
    case pass
    /// Fail because the server stops.
    case giveUp
    case complete(Outcome)
  }

  private(set) var phase = Phase.admit
  let kind: Kind
  /// Whether all callers have gone. The flight begins nothing more then, and ends as soon as it has no response to wait for.
  var isCancelled = false

  /// The call, as that of the caller that pays for the request.
  private(set) var call: CatalogCall
  /// The subject of the request, for the circuit.
  private(set) var subject: CircuitSubject
  /// The method of the request to the upstream.
  let method: HTTPRequest.Method
  /// The end-to-end fields of every attempt.
  private(set) var fields: FieldLines
  /// The request's content. Content that has been read once cannot be sent again, so the wrapper records reads.
  var content: WatchedContent?
  let contentLength: Int?
  /// The stored response that the request validates; nil to fetch the whole response.
  private(set) var stored: StoredResponse?

  /// The number of the attempt.
  private(set) var number = 1
  /// Whether an earlier attempt failed in a way that is retried once (``RetryPolicy/Decision/retryOnce(after:)``).
  private(set) var hasFailed = false
  /// What Apple said in the response to the last attempt if that was 429.
  private(set) var limited: ReplacedResponse?
  /// Whether the server requested a new token for the request after a 401.
  private(set) var hasFreshToken = false
  /// Whether the last 401 may be about the user's token, or about its absence.
  private var isForUser = false

  init(_ kind: Kind, of miss: CatalogMiss, content: (any ContentReader)? = nil, contentLength: Int? = nil) {
    (self.kind, call) = (kind, miss.call)
    subject = CircuitSubject(miss.call)
    self.content = content.map { WatchedContent($0) }
    self.contentLength = contentLength
    let isPassed = if case .passed = kind { true } else { false }
    method = isPassed ? miss.call.method : .get
    let stored = isPassed ? nil : miss.stored?.response
    self.stored = stored
    fields = Self.fields(of: miss.call, validating: stored)
  }

  private mutating func validate(_ stored: StoredResponse?) {
    self.stored = stored
    fields = Self.fields(of: call, validating: stored)
  }

  private static func fields(of call: CatalogCall, validating stored: StoredResponse?) -> FieldLines {
    guard let stored else { return call.fields }
    var fields = call.fields
    fields.append(contentsOf: stored.validators)
    return fields
  }

  /// Begins. Not called for a flight whose request has been admitted already.
  ///
  /// - Parameter asksStore: Whether the replicas' store is asked first.
  mutating func begin(asksStore: Bool) -> Action {
    if content != nil {
      phase = .parse
      return .collect
    }
    guard asksStore else { return admit() }
    phase = .lookUp
    return .lookUp
  }

  mutating func on(_ event: Event) -> Action {
    switch event {
    case .collected: return admit()
    case .found(let response): return reply(isCancelled ? .cancelled : .found(response))
    case .notFound(let stored):
      validate(stored)
      return admit()
    case .lacksToken(let permit, let pass): return go(to: .authorize, .mint(permit, pass))
    case .admitted:
      limited = nil
      return go(to: .send, .send)
    case .responded: return receive()
    case .unauthorized(let isForUser, let hasNewClock):
      if isCancelled { return reply(.cancelled) }
      if hasNewClock { hasFreshToken = false }
      self.isForUser = isForUser
      return go(to: .evaluate, isForUser ? .test : .renew)
    case .tested(let verdict): return tested(verdict)
    case .renewed(let isRenewed): return renewed(isRenewed)
    case .retry(let delay, let limited):
      self.limited = limited
      return retry(after: delay)
    case .retryOnce(let delay):
      (limited, hasFailed) = (nil, true)
      return retry(after: delay)
    case .paused: return admit()
    case .rejected(let failure): return go(to: .evaluate, .readWords(failure))
    case .failed(let failure): return reply(.failure(failure, mayBeReplaced: !isPassed))
    case .mismatched:
      (number, hasFailed, hasFreshToken) = (1, false, false)
      validate(nil)
      return admit()
    case .stored(let outcome): return reply(outcome)
    case .interrupted(let byCaller): return byCaller || isCancelled ? reply(.cancelled) : go(to: .reply, .giveUp)
    }
  }

  private mutating func go(to phase: Phase, _ action: Action) -> Action {
    self.phase = phase
    return action
  }

  private mutating func reply(_ outcome: Outcome) -> Action { go(to: .reply, .complete(outcome)) }

  /// Takes a turn, unless no caller waits any more.
  private mutating func admit() -> Action { isCancelled ? reply(.cancelled) : go(to: .admit, .admit) }

  private mutating func receive() -> Action { go(to: .store, isPassed ? .pass : .store) }

  private mutating func retry(after delay: Duration) -> Action {
    number += 1
    return delay > .zero ? go(to: .evaluate, .pause(delay)) : admit()
  }

  /// A user's 401 passes, unless Apple refuses the developer token.
  private mutating func tested(_ verdict: TokenVerdict) -> Action {
    switch verdict {
    case .abandoned: on(.interrupted(byCaller: false))
    case .accepted where isForUser, .unknown where isForUser: receive()
    case .refused where isForUser: .renew
    case .accepted: .fail401(isOfToken: false)
    case .refused, .unknown: .fail401(isOfToken: true)
    }
  }

  private mutating func renewed(_ isRenewed: Bool) -> Action {
    guard isRenewed else { return isForUser ? .fail401(isOfToken: true) : .test }
    hasFreshToken = true
    return retry(after: .zero)
  }

  var isPassed: Bool {
    if case .passed = kind { true } else { false }
  }

  /// Whether the request may change something (RFC 9110 §9.2.1).
  var isChange: Bool { method != .get && method != .head }

  /// The identity of a flight that callers may join.
  var id: FlightID? {
    if case .shared(let id) = kind { id } else { nil }
  }

  /// Whether 304 is a possible response to the request (RFC 9110 §13.2.2).
  var isConditional: Bool { fields.has("if-none-match") || fields.has("if-modified-since") }

  /// The caller that the quota is charged to.
  var caller: QuotaCaller { call.caller }

  /// Charges the request to the caller whose place in the queue has given it its turn.
  mutating func charge(to caller: QuotaCaller) {
    guard caller != call.caller else { return }
    call = call.charged(to: caller)
    subject = CircuitSubject(call)
  }

  /// Whether the content is unread, so that the request can be sent again.
  var isUntouched: Bool { !(content?.isTouched ?? false) }
}

/// Content that records whether it was read, and whether it broke off.
final class WatchedContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement, as is the content itself.
  let reader: any ContentReader
  private(set) var isTouched = false
  private(set) var isBroken = false

  init(_ reader: any ContentReader) {
    self.reader = reader
  }

  func read() async throws(ContentError) -> [UInt8]? {
    isTouched = true
    do throws(ContentError) {
      return try await reader.read()
    } catch {
      isBroken = true
      throw error
    }
  }

  func cancel() {
    reader.cancel()
  }
}

/// The result of a flight, for all callers that wait for it. Rare results are indirect, so that the others are small.
enum Outcome: Sendable {
  /// A whole response. `isStored`: the cache has it. `forwardStatus`: the upstream's status if it differs (304).
  case response(StoredResponse, isStored: Bool, forwardStatus: Int?)
  /// A fresh response that another replica has stored. Each caller decides whether it may have it.
  case found(StoredResponse)
  /// A response that passes on while it arrives. Only one caller can have it.
  indirect case stream(UpstreamResponse)
  /// Another caller has the response, which was too long to share: send the request separately without the cache.
  case alone
  /// Another caller has the response, which only that caller may have: send the request separately.
  case unshared
  /// The request takes long, and the caller may have a stale response instead.
  case late
  /// The request failed, so there is no response. `mayBeReplaced`: a stale response may replace the failure.
  indirect case failure(UpstreamFailure, mayBeReplaced: Bool)
  /// All callers have stopped waiting.
  case cancelled
}
