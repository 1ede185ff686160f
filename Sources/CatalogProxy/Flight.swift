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
/// | 6 authorize | a new developer token | `mint` | `admitted`, `failed`, `interrupted` |
/// | 7 send | Apple's response | `send` | `responded`, `unauthorized`, `retry`, `retryOnce`, `rejected`, `failed`, … |
/// | 8 evaluate | a verdict on the developer token | `test` | `tested` |
/// | | another token | `renew` | `renewed` |
/// | | a pause | `pause` | `paused`, `interrupted` |
/// | | the words of an error | `fail401`, `readWords` | `rejected`, `failed` |
/// | 9 store | the content of the response | `store`, `pass` | `stored`, `mismatched`, `failed`, `interrupted` |
/// | 10 reply | nothing: the callers have the outcome | `complete`, `giveUp` | |
///
/// Phases 1 to 4 end before a flight begins, except that content arrives during it (2, for want of a number of its own),
/// and that the replicas' store is one more place to look up.
struct Flight: ~Copyable, Sendable {
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
    case found(StoredResponse)
    /// The store has none. This one may be validated.
    case notFound(validating: StoredResponse?)
    indirect case lacksToken(ConcurrencyPermit, UpstreamCircuit.Pass)
    case admitted
    /// Apple's response is for the callers.
    case responded
    /// Apple's response is 401. `isForUser`: it depends on a user. `hasNewClock`: the clock was set since the token.
    case unauthorized(isForUser: Bool, hasNewClock: Bool)
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
    case stored(Outcome)
    /// A wait was cancelled. `byCaller`: the content of the caller's request has broken off.
    case interrupted(byCaller: Bool)
  }

  /// What the driver does, in the order of the phases.
  enum Action: Sendable {
    case collect, lookUp, admit
    indirect case mint(ConcurrencyPermit, UpstreamCircuit.Pass)
    case send, test, renew
    case pause(Duration)
    /// Fail because of a 401. `isOfToken`: Apple refuses every token, not only this request.
    case fail401(isOfToken: Bool)
    indirect case readWords(UpstreamFailure)
    /// Store the response, or pass it on while it arrives.
    case store, pass
    case complete(Outcome)
    /// Fail because the server stops.
    case giveUp
  }

  let kind: Kind
  /// Whether all callers have gone. The flight begins nothing more then, and ends as soon as it has no response to wait for.
  var isCancelled = false

  let call: CatalogCall
  private(set) var payer: QuotaCaller
  private(set) var subject: CircuitSubject
  /// The content of the caller's request, while it arrives.
  let arriving: (any ContentReader)?
  /// As much of it as has arrived before the first attempt, and the rest.
  var content: CollectedContent?
  let contentLength: Int?
  /// The stored response that the request validates; nil to fetch the whole response.
  private(set) var stored: StoredResponse?

  private(set) var number = 1
  /// Whether an earlier attempt failed in a way that is retried once (``RetryPolicy/Decision/retryOnce(after:)``).
  private(set) var hasFailed = false
  /// What Apple said in the response to the last attempt if that was 429.
  private(set) var limited: ReplacedResponse?
  /// Whether the server requested a new token for the request after a 401.
  private(set) var hasFreshToken = false
  /// Whether the last 401 may be about the user's token, or about its absence.
  private var isForUser = false
  /// Whether the clock was set after the refused token was minted, which may be why Apple refuses it. Then another token
  /// comes before all else.
  private(set) var renewsFirst = false

  init(_ kind: Kind, of miss: CatalogMiss, content: (any ContentReader)? = nil, contentLength: Int? = nil) {
    (self.kind, call, payer) = (kind, miss.call, miss.payer)
    subject = CircuitSubject(call, for: payer)
    (arriving, self.contentLength) = (content, contentLength)
    stored = isPassed ? nil : miss.stored?.response
  }

  var method: HTTPRequest.Method { isPassed ? call.method : .get }

  /// Begins, unless the request has been admitted already. `asksStore`: the replicas' store is asked first.
  func begin(asksStore: Bool) -> Action {
    if arriving != nil { return .collect }
    return asksStore ? .lookUp : admit()
  }

  mutating func on(_ event: Event) -> Action {
    switch event {
    case .collected: return admit()
    case .found(let response): return .complete(isCancelled ? .cancelled : .found(response))
    case .notFound(let stored):
      self.stored = stored
      return admit()
    case .lacksToken(let permit, let pass): return .mint(permit, pass)
    case .admitted:
      limited = nil
      return .send
    case .responded: return receive()
    case .unauthorized(let isForUser, let hasNewClock):
      if isCancelled { return .complete(.cancelled) }
      if hasNewClock { hasFreshToken = false }
      (self.isForUser, renewsFirst) = (isForUser, hasNewClock)
      return isForUser && !hasNewClock ? .test : .renew
    case .tested(let verdict): return tested(verdict)
    case .renewed(let isRenewed): return renewed(isRenewed)
    case .retry(let delay, let limited):
      self.limited = limited
      return retry(after: delay)
    case .retryOnce(let delay):
      (limited, hasFailed) = (nil, true)
      return retry(after: delay)
    case .paused: return admit()
    case .rejected(let failure): return .readWords(failure)
    case .failed(let failure): return .complete(.failure(failure, mayBeReplaced: !isPassed))
    case .mismatched:
      (number, hasFailed, hasFreshToken, stored) = (1, false, false, nil)
      return admit()
    case .stored(let outcome): return .complete(outcome)
    case .interrupted(let byCaller): return byCaller || isCancelled ? .complete(.cancelled) : .giveUp
    }
  }

  /// Takes a turn, unless no caller waits any more.
  private func admit() -> Action { isCancelled ? .complete(.cancelled) : .admit }

  private func receive() -> Action { isPassed ? .pass : .store }

  private mutating func retry(after delay: Duration) -> Action {
    number += 1
    return delay > .zero ? .pause(delay) : admit()
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
    defer { renewsFirst = false }
    guard isRenewed else { return isForUser && !renewsFirst ? .fail401(isOfToken: true) : .test }
    hasFreshToken = true
    return retry(after: .zero)
  }

  var isPassed: Bool { if case .passed = kind { true } else { false } }
  /// The identity of a flight that callers may join.
  var id: FlightID? { if case .shared(let id) = kind { id } else { nil } }
  /// Whether the request may change something (RFC 9110 §9.2.1).
  var isChange: Bool { method != .get && method != .head }
  /// Whether 304 is a possible response to the request (RFC 9110 §13.2.2).
  var isConditional: Bool {
    !(stored?.validators.isEmpty ?? true) || call.fields.has("if-none-match") || call.fields.has("if-modified-since")
  }
  /// Whether the content is unread, so that the request can be sent again.
  var isUntouched: Bool { !(content?.isTouched ?? false) }

  /// Charges the request to the caller whose place in the queue has given it its turn.
  mutating func charge(to payer: QuotaCaller) {
    guard payer != self.payer else { return }
    (self.payer, subject) = (payer, CircuitSubject(call, for: payer))
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
