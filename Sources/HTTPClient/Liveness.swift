import EventLoop

/// Whether the peer of a connection is there: asked after a silence, and taken for gone if it does not answer in time.
struct Liveness {
  /// What there is to do.
  enum Due: Equatable {
    case nothing
    /// Ask, with this payload.
    case ping(UInt64)
    /// The peer did not answer.
    case dead
  }

  private let idle: Duration
  private let busy: Duration
  private let answer: Duration
  private var isBusy = false
  private var quietSince: Deadline
  /// When it was asked, and not heard since.
  private var asked: Deadline?
  private var payload: UInt64 = 0

  init(_ limits: UpstreamLimits, since now: Deadline) {
    idle = limits.pingWhenIdle
    busy = limits.pingWhenBusy
    answer = limits.pingAnswer
    quietSince = now
  }

  /// When `due` has something to say, unless something is heard.
  var deadline: Deadline {
    asked?.advanced(by: answer) ?? quietSince.advanced(by: isBusy ? busy : idle)
  }

  /// Something is awaited from now on.
  mutating func becameBusy(at now: Deadline) {
    isBusy = true
    // An idle connection was right to be silent.
    if asked == nil { quietSince = now }
  }

  /// Nothing is awaited any more.
  mutating func becameIdle() { isBusy = false }

  /// The peer has sent something, whatever it is.
  mutating func heard(at now: Deadline) {
    quietSince = now
    asked = nil
  }

  /// What there is to do now; to ask counts as done.
  mutating func due(at now: Deadline) -> Due {
    guard now >= deadline else { return .nothing }
    if asked != nil { return .dead }
    asked = now
    payload &+= 1
    return .ping(payload)
  }
}
