import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy
@testable import HTTPCache
@testable import UpstreamAdmission

@Suite("A flight")
struct FlightTests {
  /// A name for each kind of flight.
  enum Subject: String {
    case shared, single, passed
  }

  /// An event, after which the callers may have gone.
  struct Step: Sendable {
    let event: Flight.Event
    var isCancelled = false

    static func event(_ event: Flight.Event) -> Step { Step(event: event) }
    static func gone(_ event: Flight.Event) -> Step { Step(event: event, isCancelled: true) }
  }

  private static let failure = UpstreamFailure.overMemory
  private static let words = ReplacedResponse(status: 429)
  private static let streamed = Step.event(.stored(.stream(.scripted())))
  private static let at401 = (
    ours: Step.event(.unauthorized(isForUser: false, hasNewClock: false)),
    users: Step.event(.unauthorized(isForUser: true, hasNewClock: false)),
    usersByNewClock: Step.event(.unauthorized(isForUser: true, hasNewClock: true))
  )

  private func flight(_ subject: Subject) throws -> Flight {
    let ground = ProxyGround { _ in .scripted() }
    let call = try ground.call("/v1/catalog/us/songs/1")
    let miss = CatalogMiss(
      call, for: .only("a"), after: nil, waited: .zero, end: .seconds(30), route: ground.route)
    let id = FlightID(key: call.key, serial: 1)
    let kind: Flight.Kind =
      switch subject {
      case .shared: .shared(id)
      case .single: .single
      case .passed: .passed
      }
    return Flight(kind, of: miss)
  }

  @Test(
    "takes the action that follows from each event",
    arguments: [
      ("a response", .shared, [.event(.admitted), .event(.responded)], ["admit", "send", "store"]),
      ("a response to one caller", .single, [.event(.admitted), .event(.responded)], ["admit", "send", "store"]),
      (
        "a response that is not stored", .passed, [.event(.admitted), .event(.responded), streamed],
        ["admit", "send", "pass", "stream"]
      ),
      ("no turn", .single, [.event(.failed(failure))], ["admit", "fail"]),
      (
        "another attempt at once", .single,
        [.event(.admitted), .event(.retry(after: .zero, limited: nil)), .event(.admitted)],
        ["admit", "send", "admit", "send"]
      ),
      (
        "another attempt later", .shared,
        [.event(.admitted), .event(.retry(after: .seconds(1), limited: words)), .event(.paused), .event(.admitted)],
        ["admit", "send", "pause", "admit", "send"]
      ),
      (
        "no other attempt if all callers go while it pauses", .shared,
        [.event(.admitted), .event(.retry(after: .seconds(1), limited: words)), .gone(.paused)],
        ["admit", "send", "pause", "cancel"]
      ),
      (
        "no other attempt if all callers have gone", .single,
        [.event(.admitted), .gone(.retry(after: .zero, limited: nil))], ["admit", "send", "cancel"]
      ),
      (
        "an error with Apple's words", .passed,
        [.event(.admitted), .event(.rejected(failure)), .event(.failed(failure))],
        ["admit", "send", "readWords", "fail"]
      ),
      (
        "a 304 about another version", .shared,
        [.event(.admitted), .event(.responded), .event(.mismatched), .event(.admitted)],
        ["admit", "send", "store", "admit", "send"]
      ),
      ("the server stops", .shared, [.event(.interrupted(byCaller: false))], ["admit", "giveUp"]),
      ("the caller's content breaks off", .passed, [.event(.interrupted(byCaller: true))], ["admit", "cancel"]),
      ("the callers go while it waits", .shared, [.gone(.interrupted(byCaller: false))], ["admit", "cancel"]),
      (
        "Apple's response, although all callers have gone", .shared,
        [.event(.admitted), .gone(.responded), .gone(.stored(.cancelled))], ["admit", "send", "store", "cancel"]
      ),
      (
        "401, and all callers have gone, so nothing is asked or minted", .passed,
        [.event(.admitted), .gone(.unauthorized(isForUser: true, hasNewClock: true))], ["admit", "send", "cancel"]
      ),
      (
        "401, then another token", .shared, [.event(.admitted), at401.ours, .event(.renewed(true)), .event(.admitted)],
        ["admit", "send", "renew", "admit", "send"]
      ),
      (
        "401, and no other token, but Apple accepts this one", .shared,
        [.event(.admitted), at401.ours, .event(.renewed(false)), .event(.tested(.accepted))],
        ["admit", "send", "renew", "test", "fail401(request)"]
      ),
      (
        "401, and Apple refuses every token", .shared,
        [.event(.admitted), at401.ours, .event(.renewed(false)), .event(.tested(.refused))],
        ["admit", "send", "renew", "test", "fail401(token)"]
      ),
      (
        "401, and Apple does not say why", .single,
        [.event(.admitted), at401.ours, .event(.renewed(false)), .event(.tested(.unknown))],
        ["admit", "send", "renew", "test", "fail401(token)"]
      ),
      (
        "a user's 401, and Apple accepts the token", .passed,
        [.event(.admitted), at401.users, .event(.tested(.accepted))],
        ["admit", "send", "test", "pass"]
      ),
      (
        "a user's 401, and Apple does not say why", .passed,
        [.event(.admitted), at401.users, .event(.tested(.unknown))],
        ["admit", "send", "test", "pass"]
      ),
      (
        "a user's 401, and Apple refuses the token", .passed,
        [.event(.admitted), at401.users, .event(.tested(.refused)), .event(.renewed(true))],
        ["admit", "send", "test", "renew", "admit"]
      ),
      (
        "a user's 401, and Apple refuses every token", .passed,
        [.event(.admitted), at401.users, .event(.tested(.refused)), .event(.renewed(false))],
        ["admit", "send", "test", "renew", "fail401(token)"]
      ),
      (
        "a user's 401 after the clock was set, and another token", .passed,
        [.event(.admitted), at401.usersByNewClock, .event(.renewed(true))], ["admit", "send", "renew", "admit"]
      ),
      (
        "a user's 401 after the clock was set, and no other token, but Apple accepts this one", .passed,
        [.event(.admitted), at401.usersByNewClock, .event(.renewed(false)), .event(.tested(.accepted))],
        ["admit", "send", "renew", "test", "pass"]
      ),
      (
        "a user's 401 after the clock was set, and Apple refuses every token", .passed,
        [
          .event(.admitted), at401.usersByNewClock, .event(.renewed(false)), .event(.tested(.refused)),
          .event(.renewed(false)),
        ],
        ["admit", "send", "renew", "test", "renew", "fail401(token)"]
      ),
      (
        "401, and the caller goes before it is understood", .passed,
        [.event(.admitted), at401.users, .gone(.tested(.abandoned))], ["admit", "send", "test", "cancel"]
      ),
      (
        "401, and the server stops before it is understood", .passed,
        [.event(.admitted), at401.users, .event(.tested(.abandoned))], ["admit", "send", "test", "giveUp"]
      ),
    ] as [(String, Subject, [Step], [String])])
  func actions(_ name: String, _ subject: Subject, _ steps: [Step], _ expected: [String]) throws {
    var flight = try flight(subject)
    var actions = [flight.begin(asksStore: false).label]
    for step in steps {
      flight.isCancelled = step.isCancelled
      actions.append(flight.on(step.event).label)
    }
    #expect(actions == expected, "\(name)")
  }

  @Test(
    "asks the replicas' store first, if there is one, and not for callers that have gone", arguments: [true, false])
  func store(isCancelled: Bool) throws {
    var flight = try flight(.shared)
    #expect(flight.begin(asksStore: true).label == "lookUp")
    flight.isCancelled = isCancelled
    let next = flight.on(.notFound(validating: nil))
    #expect(next.label == (isCancelled ? "cancel" : "admit"))
  }

  @Test("fails once, whatever its earlier attempts, and may fail again after a 304 about another version")
  func failsOnce() throws {
    var flight = try flight(.shared)
    _ = flight.on(.admitted)
    _ = flight.on(.retry(after: .zero, limited: nil))
    #expect(flight.hasFailed == false)
    _ = flight.on(.admitted)
    #expect(flight.on(.retryOnce(after: .zero)).label == "admit" && flight.hasFailed && flight.number == 3)
    _ = flight.on(.admitted)
    _ = flight.on(.mismatched)
    #expect(!flight.hasFailed && flight.number == 1)
  }

  @Test("numbers its attempts, and forgets a 429 when the next one is sent")
  func numbers() throws {
    var flight = try flight(.single)
    _ = flight.on(.admitted)
    _ = flight.on(.retry(after: .seconds(1), limited: Self.words))
    #expect(flight.number == 2 && flight.limited == Self.words)
    _ = flight.on(.paused)
    _ = flight.on(.admitted)
    #expect(flight.number == 2 && flight.limited == nil)
    _ = flight.on(.unauthorized(isForUser: false, hasNewClock: false))
    _ = flight.on(.renewed(true))
    #expect(flight.number == 3 && flight.hasFreshToken)
    _ = flight.on(.admitted)
    _ = flight.on(.unauthorized(isForUser: false, hasNewClock: true))
    #expect(flight.hasFreshToken == false, "The clock was set, so that token proves nothing.")
    _ = flight.on(.mismatched)
    #expect(flight.number == 1)
  }

  @Test("lets a stale response replace its failure only if the request concerns the cache")
  func replacement() throws {
    for (subject, isReplaceable) in [(Subject.shared, true), (.single, true), (.passed, false)] {
      var flight = try flight(subject)
      guard case .complete(.failure(_, isReplaceable)) = flight.on(.failed(Self.failure)) else {
        Issue.record("\(subject)")
        continue
      }
    }
  }
}

extension Flight.Action {
  /// A name of the action.
  fileprivate var label: String {
    switch self {
    case .collect: "collect"
    case .lookUp: "lookUp"
    case .admit: "admit"
    case .mint: "mint"
    case .send: "send"
    case .test: "test"
    case .renew: "renew"
    case .pause: "pause"
    case .fail401(let isOfToken): isOfToken ? "fail401(token)" : "fail401(request)"
    case .readWords: "readWords"
    case .store: "store"
    case .pass: "pass"
    case .giveUp: "giveUp"
    case .complete(.failure): "fail"
    case .complete(.stream): "stream"
    case .complete(.cancelled): "cancel"
    case .complete: "reply"
    }
  }
}
