import DequeModule
import EventLoop
import HTTPMessages
import Memory
import TLS

/// The expensive work that waits for its turn.
///
/// A TLS handshake costs as much processor time as fifty requests for a cached token, or three hundred with RSA-4096, and
/// a request to Apple as much as twenty. So they wait until the cheap work of a turn is done, and each kind gets half.
struct ExpensiveWork<Element> {
  enum Kind: Int {
    case handshake, request
  }

  private var queues = [TurnQueue<Element>(), TurnQueue<Element>()]
  /// The time that handshakes have had beyond that of requests, since there have been both.
  private var lead = Duration.zero

  var isEmpty: Bool { queues.allSatisfy(\.isEmpty) }

  subscript(kind: Kind) -> TurnQueue<Element> {
    get { queues[kind.rawValue] }
    _modify { yield &queues[kind.rawValue] }
  }

  /// Removes the next work; nil if none waits. It is refused if it is not timely. Call `charge` when it is done.
  mutating func next(at now: Deadline, limits: ServerLimits) -> (element: Element, kind: Kind, isTimely: Bool)? {
    let (hasHandshakes, hasRequests) = (!self[.handshake].isEmpty, !self[.request].isEmpty)
    if !hasHandshakes || !hasRequests { lead = .zero }
    let kind: Kind = !hasHandshakes || (lead >= .zero && hasRequests) ? .request : .handshake
    return self[kind].next(at: now, limits: limits).map { ($0.element, kind, $0.isTimely) }
  }

  mutating func charge(_ time: Duration, to kind: Kind) { lead += kind == .handshake ? time : .zero - time }
}

/// Expensive work of one kind, in a line for each client address. They take turns, so a long line delays only itself.
///
/// If work is late for longer than a burst, or what waits would take longer, there is more than the server can do. Then
/// each line gets its share of what the server does in `ServerLimits.lateWork`, and more is refused before it costs anything
/// else. That ends when none was refused for the length of a burst.
struct TurnQueue<Element> {
  private struct Line {
    typealias Work = (element: Element, since: Deadline, arrival: Deadline)

    /// Apart from the others, because most lines have none, and so need no memory of their own.
    private var first: Work?
    private var others = Deque<Work>()
    var lateness = Lateness()

    var count: Int { first == nil ? 0 : 1 + others.count }

    mutating func append(_ work: Work) {
      if first == nil { first = work } else { others.append(work) }
    }

    mutating func popFirst() -> Work? {
      guard let work = first.take() else { return nil }
      first = others.popFirst()
      return work
    }
  }

  private var lines: [Holder?: Line] = [:]
  /// The addresses with a line, in order of their next turn: those that have not had one yet, and all others. The two
  /// alternate, so that an address with little work need not wait for all those with much (RFC 8290 §4.2).
  private var turns = (new: Deque<Holder?>(), old: Deque<Holder?>())
  private var prefersNew = true
  private var lateness = Lateness()
  private var throughput = Throughput()
  private var lastRefusal: Deadline?
  private var count = 0
  /// Since when there has always been work, and how much was done since.
  private var spell = (began: Deadline(nanoseconds: 0), done: 0)

  typealias Holder = MemoryBudget.Holder

  var isEmpty: Bool { lines.isEmpty }

  /// Returns whether to refuse more work of `address`, because its line is full. Lines are only full under overload.
  mutating func refuses(_ address: Holder?, at now: Deadline, limits: ServerLimits) -> Bool {
    if exceedsBurst(at: now, limits: limits) { lastRefusal = now }
    guard isOverloaded(at: now, limits: limits), let line = lines[address],
      line.count >= max(1, pace(at: now, limits: limits) / lines.count)
    else { return false }
    lastRefusal = now
    return true
  }

  /// Whether more work of `address` waits than the connections of one browser cause.
  func hasLongLine(of address: Holder?) -> Bool { lines[address].map { $0.count > Worker.few } ?? false }

  /// Adds work to the line of `address`, nil for all trusted proxies. It has waited since `arrival`, if that is known.
  mutating func add(_ element: Element, of address: Holder?, since arrival: Deadline? = nil, at now: Deadline) {
    if count == 0 { spell = (now, 0) }
    count += 1
    if lines[address] == nil { turns.new.append(address) }
    lines[address, default: Line()].append((element, now, arrival ?? now))
  }

  mutating func next(at now: Deadline, limits: ServerLimits) -> (element: Element, isTimely: Bool)? {
    guard let address = nextAddress(), let line = lines.index(forKey: address),
      let (element, since, arrival) = lines.values[line].popFirst()
    else { return nil }
    count -= 1
    var limits = limits
    if isOverloaded(at: now, limits: limits) { limits.burst = .zero }
    // What has waited before is the address's own matter.
    let isTimelyForAll = lateness.admits(now.duration(since: since), at: now, limits: limits)
    let isTimelyInLine = lines.values[line].lateness.admits(now.duration(since: arrival), at: now, limits: limits)
    let isTimely = isTimelyInLine && isTimelyForAll
    if isTimely {
      throughput.count(at: now, in: limits.lateWork)
      spell.done += 1
    } else if now.duration(since: since) > limits.promptWork {
      // Not if it came late: the lines of the others are prompt.
      lastRefusal = now
    }
    if lines.values[line].count == 0 {
      lines.remove(at: line)
    } else {
      turns.old.append(address)
    }
    return (element, isTimely)
  }

  private func isOverloaded(at now: Deadline, limits: ServerLimits) -> Bool {
    lastRefusal.map { now.duration(since: $0) <= limits.burst } ?? false
  }

  /// Whether the work that waits will take longer than a burst, at the pace since there has always been work. Without
  /// this, a great flood would fill the lines for a second before the first refusal.
  private func exceedsBurst(at now: Deadline, limits: ServerLimits) -> Bool {
    let elapsed = now.duration(since: spell.began)
    return spell.done >= Self.leastDone && elapsed > limits.promptWork && elapsed * count > limits.burst * spell.done
  }

  /// The least work that shows a pace.
  private static var leastDone: Int { 16 }

  /// How much work is done in the time that is late. Before a whole such period has passed, the beginning shows it.
  private func pace(at now: Deadline, limits: ServerLimits) -> Int {
    let elapsed = now.duration(since: spell.began)
    let isBeginning = elapsed > limits.promptWork && elapsed < limits.lateWork * 2
    guard spell.done >= Self.leastDone, isBeginning else { return throughput.last }
    return max(throughput.last, Int(Double(spell.done) * (limits.lateWork / elapsed)))
  }

  private mutating func nextAddress() -> Holder?? {
    prefersNew.toggle()
    return prefersNew ? turns.new.popFirst() ?? turns.old.popFirst() : turns.old.popFirst() ?? turns.new.popFirst()
  }
}

private struct Throughput {
  private(set) var last = 0
  private var present = 0
  private var began = Deadline(nanoseconds: 0)

  mutating func count(at now: Deadline, in period: Duration) {
    let past = now.duration(since: began)
    if past >= period {
      last = past < period * 2 ? present : 0
      (present, began) = (0, now)
    }
    present += 1
  }
}

/// Decides whether work that has waited is still worth doing, as CoDel does for packets (RFC 8289).
///
/// A burst may wait. If work is late for longer than `ServerLimits.burst`, more arrives than the server can do: then only a
/// short queue is useful, because a longer one makes everything late and serves no more.
struct Lateness {
  private var lateSince: Deadline?
  private var lastSeen = Deadline(nanoseconds: 0)

  mutating func admits(_ delay: Duration, at now: Deadline, limits: ServerLimits) -> Bool {
    let isContinued = now.duration(since: lastSeen) <= limits.burst
    lastSeen = now
    guard delay > limits.promptWork else {
      lateSince = nil
      return true
    }
    let since = isContinued ? lateSince ?? now : now
    lateSince = since
    return now.duration(since: since) < limits.burst || delay <= limits.lateWork
  }
}

/// What waits for its turn: a connection before its TLS handshake, or the work of a request.
protocol AwaitedTurn: AnyObject {
  func isDue(isTimely: Bool)
}

extension Worker {
  func lineUp(
    _ work: any AwaitedTurn, _ kind: ExpensiveWork<any AwaitedTurn>.Kind, of address: MemoryBudget.Holder?,
    since arrival: Deadline? = nil
  ) {
    waiting[kind].add(work, of: address, since: arrival, at: loop.now)
    guard !takesTurns else { return }
    takesTurns = true
    loop.atEndOfTurn { self.takeTurns() }
  }

  /// Does expensive work for as long as the rest of the turn took, so that cheap and expensive work have half of the time
  /// each. A loop that is behind does only one piece: begun requests also cost time later, and too many make all late.
  private func takeTurns() {
    let began = Deadline.now
    let end = began.advanced(by: began.duration(since: loop.now))
    var now = began
    repeat {
      guard let due = waiting.next(at: now, limits: limits) else { break }
      due.element.isDue(isTimely: due.isTimely)
      loop.runTasks()
      let done = Deadline.now
      waiting.charge(done.duration(since: now), to: due.kind)
      now = done
      if due.isTimely, now < end, hasBacklog { break }
    } while now < end
    takesTurns = !waiting.isEmpty
    if takesTurns { loop.atEndOfNextTurn { self.takeTurns() } }
  }
}

/// The work that a connection may not begin at once: TLS handshakes and requests that wait. The rest costs little.
extension Connection: AwaitedTurn {
  /// Waits for the handshake's turn, and reads nothing meanwhile.
  func waitForHandshake() {
    transport.releaseBuffers()
    channel.sleep(until: state.rest(at: now, grace: grace), self)
    worker.lineUp(self, .handshake, of: peer.client.holder)
  }

  /// Begins the handshake, or closes the connection if it has waited too long. The peer of a refused handshake sees a
  /// reset: no response is possible before TLS, and an alert would say no more.
  func isDue(isTimely: Bool) {
    guard channel.raw >= 0, let context = awaitedTLS else { return }
    guard isTimely else {
      worker.observer.noticed(.handshakeShed(peer.address))
      channel.resetOnClose()
      return close()
    }
    guard worker.charge(hold, heldBytes + Cost.handshake, for: counted, self) else {
      worker.observer.noticed(.tooLittleMemoryForConnection(peer.address))
      return close()
    }
    awaitedTLS = nil
    channel.unwatch()
    guard case .read = state.woke(.ready, at: now) else { return }
    do throws(CloseReason) {
      do { transport.tls = try TLSSession(context) } catch { throw .failedTLS(error) }
      transport.borrowBuffers()
      try receive()
    } catch { return end(error) }
    serveReceived()
  }

  /// Puts the connection after those of others, unless it is a trusted proxy's, which has the requests of others.
  func deprioritise() {
    guard channel.rank == .first, !peer.isTrusted, let address = peer.client.holder else { return }
    channel.rank = .last
    worker.deprioritisedOfAddress[address, default: 0] += 1
  }

  /// Ends what `deprioritise` began, if the client has no more work than others, or the loop is no longer behind. One with
  /// few connections is deprioritised once for each refusal: others may fill its line.
  func regainRank() {
    guard !worker.waiting[.request].hasLongLine(of: peer.client.holder),
      !worker.hasManyDeprioritised(peer.client.holder) || !worker.isBehind
    else { return }
    channel.rank = .first
    worker.noteReprioritised(peer.client.holder)
  }

  /// Returns the refusal of a request that its handler has not seen, on a loop that is behind, if the line of the client's
  /// address is full or the request is late already. To check access and search the cache takes as long as the refusal.
  func earlyRefusal(of request: Request) -> Response? {
    if worker.waiting[.request].refuses(request.client.holder, at: now, limits: worker.limits) {
      deprioritise()
      return refuse(request)
    }
    // Another request of the connection has not delayed this one; those of HTTP/2 do not wait for each other.
    guard channel.rank == .last, activity.isNone, !state.workMayDelay, let arrival = channel.lastArrival else {
      return nil
    }
    request.arrival = arrival
    request.received = min(request.received, arrival)
    // A burst may be late here, too.
    let delay = now.duration(since: arrival)
    return worker.latenessOfDeprioritised.admits(delay, at: now, limits: worker.limits) ? nil : refuse(request)
  }

  /// Returns the response if more work of the client's address waits than the server can do in time.
  func responseInstead(of work: DeferredWork, for request: Request) -> Response? {
    guard worker.waiting[.request].refuses(request.client.holder, at: now, limits: worker.limits) else { return nil }
    return shed(work, of: request)
  }

  /// Returns the response to a request whose turn came too late.
  func shed(_ work: DeferredWork, of request: Request) -> Response { work.instead?() ?? refuse(request) }

  private func refuse(_ request: Request) -> Response {
    worker.observer.noticed(.requestShed(client: request.client.name))
    return ErrorResponse.overBusy.response(id: request.id)
  }
}
