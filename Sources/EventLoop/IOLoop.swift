import CPlatform
import Dispatch
import Glibc
import HeapModule
import Locks

/// A thread that serves many descriptors. The loop waits until some are ready, resumes their waiters, and runs the tasks
/// that prefer it until they wait again. It is a task executor, so `async` code never leaves the thread.
///
/// Everything is confined to it, except `isCurrent`, `enqueue`, `post`, `performAndWait`, `stop`, `stopAndWait`,
/// `connectionsWithoutDeadline`, `lag` and `presentTurn`.
public final class IOLoop: TaskExecutor, @unchecked Sendable {
  // Sendable: state for other threads is in `mailbox`, behind its lock; everything else is confined to the thread.
  /// The system interface for readiness events.
  public enum PollerKind: String, Sendable, CaseIterable {
    case epoll, poll
  }

  /// The moment when the present turn began.
  public private(set) var now = Deadline.now
  /// Whether several descriptors were ready at the beginning of the present turn, so that others follow the present one.
  public private(set) var servesSeveral = false

  private let poller: any Poller
  /// The ranks after the first, in order; empty with poll(2).
  private var lowerRanks: [LowerRank] = []
  private let mailbox: Mailbox
  private var jobs: [UnownedJob] = []
  private var nextJob = 0
  private var slots: [Channel?] = []
  private var generations: [UInt32] = []
  private var freeSlots: [UInt32] = []
  private var timers = Heap<TimerEntry>()
  private var endings: [() -> Void] = []
  private var presentEndings: [() -> Void] = []
  private var nextEndings: [() -> Void] = []
  /// The listeners' channels, which the loop looks at early in a crowd.
  private var doors: [SlotToken] = []
  private var isStopped = false
  /// Set before any other object knows the loop.
  private var thread: Thread?

  let deadlineCount = DeadlineCount()
  /// See ``DeadlineCount``: always 0, unless this program has a defect. Any thread may read it.
  public var connectionsWithoutDeadline: Int { deadlineCount.atEndOfTurn }
  private let lagRecord = LoopLagRecord()
  private var lap = Lap()
  /// The times for which the loop kept events waiting. Any thread may read it.
  package var lag: LoopLag { lagRecord.reading }
  /// The length so far of the present turn, or zero while the loop waits. Any thread may read it.
  public var presentTurn: Duration { lagRecord.presentTurn }
  /// The number of turns of the loop, each with one wait. It also shows whether the loop spins or rests.
  package private(set) var turns = 0
  /// The number of entries in the heap, including those of closed channels.
  var timerCount: Int { timers.count }
  var channelCount: Int { slots.count - freeSlots.count }

  private struct TimerEntry: Comparable {
    let deadline: Deadline
    let token: SlotToken
    static func < (left: TimerEntry, right: TimerEntry) -> Bool { left.deadline < right.deadline }
  }

  /// Creates a loop on its own thread. Throws if the system has no descriptors or threads left.
  public static func start(label: String, poller kind: PollerKind = .epoll) throws(SocketError) -> IOLoop {
    let loop = try IOLoop(kind)
    do throws(Thread.Refused) {
      loop.thread = try Thread {
        unsafe cplatform_name_thread(label)
        loop.run()
      }
    } catch {
      throw SocketError(call: "pthread_create", code: error.code)
    }
    return loop
  }

  private init(_ kind: PollerKind) throws(SocketError) {
    mailbox = try Mailbox()
    switch kind {
    case .epoll:
      let first = try EpollPoller(atMost: Rank.first.most)
      poller = first
      for rank in [Rank.second, .last] {
        let poller = try EpollPoller(atMost: rank.most)
        try first.update(poller.descriptor.raw, from: [], to: .read, token: .poller(of: rank))
        lowerRanks.append(LowerRank(rank, poller: poller, marker: mailbox.writeEnd))
      }
    case .poll:
      poller = PollPoller()
    }
    try poller.update(mailbox.readEnd, from: [], to: .read, token: .mailbox)
  }

  /// The number of ready descriptors in a turn that counts as a crowd, and the maximum that `epoll` reports at once.
  static let crowd = 64
  /// The number of channels of the lower ranks between two looks at the listeners.
  private static let few = 16

  /// Whether the calling thread is the loop's thread.
  public var isCurrent: Bool { unsafe cplatform_current_loop() == Unmanaged.passUnretained(self).toOpaque() }

  /// Runs a job of a task that prefers this loop.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if isCurrent {
      jobs.append(job)
    } else {
      _ = mailbox.post(.job(job))
    }
  }

  /// Runs `action` on the loop's thread, in the order of the calls. Returns false if the loop has ended.
  @discardableResult
  public func post(_ action: @escaping @Sendable () -> Void) -> Bool { mailbox.post(.action(action)) }

  /// Runs `action` on the loop's thread, unless it has ended, and waits. On a loop, two that do so would wait forever.
  public func performAndWait(_ action: @escaping @Sendable () -> Void) {
    let done = DispatchSemaphore(value: 0)
    let isPosted = post {
      action()
      done.signal()
    }
    if isPosted { done.wait() }
  }

  /// Ends the loop after its present turn, and closes its open descriptors.
  public func stop() { post { self.isStopped = true } }

  /// Ends the loop and waits for its thread. A process must not run its exit handlers, such as OpenSSL's, while a loop
  /// still closes its connections. Call it once, and not on a loop.
  public func stopAndWait() {
    stop()
    thread?.join()
  }

  /// Stops a debug build on any other thread. The entries of what is confined to the loop call it first.
  public func assertCurrent() { assert(isCurrent, "called from outside the event loop") }

  /// How long a descriptor that becomes ready now has to wait; zero if the loop serves all of them in each turn.
  public var backlog: Duration { max(backlog(of: .first), backlog(of: .second), backlog(of: .last)) }

  /// The part of `backlog` that a channel of `rank` waits.
  public func backlog(of rank: Rank) -> Duration {
    assertCurrent()
    return lowerRanks.isEmpty || rank == .first ? lap.length : lowerRanks[rank.rawValue - 1].delay
  }

  /// Returns a channel without a descriptor, for waits that only a deadline or `cancel` ends. The caller must close it.
  public func openTimer() -> Channel { open(nil) }

  /// Suspends the task for `duration`. On the loop.
  /// - Throws: `CancellationError` if the task is cancelled first.
  public func pause(for duration: Duration) async throws(CancellationError) {
    guard duration > .zero else { return }
    let timer = openTimer()
    defer { timer.close() }
    let readiness = await withTaskCancellationHandler {
      await timer.wait(for: [], until: now.advanced(by: duration))
    } onCancel: {
      post { timer.cancel() }
    }
    guard readiness == .timedOut, !Task.isCancelled else { throw CancellationError() }
  }

  /// Runs `action` at the end of the present turn, so that the output of many descriptors can be sent together.
  public func atEndOfTurn(_ action: @escaping () -> Void) {
    assertCurrent()
    endings.append(action)
  }

  /// Runs `action` at the end of the next turn, which begins at once.
  public func atEndOfNextTurn(_ action: @escaping () -> Void) {
    assertCurrent()
    nextEndings.append(action)
  }

  /// Looks at a listener's channel after each crowd of ready descriptors, because the poller reports them in turn.
  func lookEarly(at channel: Channel) { doors.append(channel.token) }

  func poller(of rank: Rank) -> any Poller {
    lowerRanks.isEmpty || rank == .first ? poller : lowerRanks[rank.rawValue - 1].poller
  }

  /// Takes ownership of a descriptor, which must be non-blocking, and returns its channel. From the end of the present turn
  /// until it closes, a connection must always have a deadline.
  public func open(_ descriptor: consuming Descriptor?, isConnection: Bool = false) -> Channel {
    assertCurrent()
    let index = freeSlots.popLast() ?? UInt32(slots.count)
    if index == slots.count {
      slots.append(nil)
      generations.append(0)
    }
    let token = SlotToken(index: index, generation: generations[Int(index)])
    let channel = Channel(consume descriptor, isConnection: isConnection, loop: self, token: token)
    if isConnection { deadlineCount.changed(from: nil, to: .never) }
    slots[Int(index)] = channel
    return channel
  }

  func free(_ channel: Channel) {
    let index = Int(channel.token.index)
    slots[index] = nil
    generations[index] &+= 1
    freeSlots.append(channel.token.index)
  }

  /// Ensures that the channel's wait ends at its deadline. Most deadlines are moved before they pass, so an entry that is
  /// early enough stays, and is corrected when it fires.
  func schedule(_ channel: Channel) {
    guard channel.deadline < channel.queuedDeadline else { return }
    // Short connections leave entries that fire long after their close. The loop discards them when they are the majority.
    if timers.count > 2 * slots.count + 64 { discardStaleTimers() }
    // In the next turn at the earliest: otherwise a wait that begins again would keep the loop in this one for ever.
    let deadline = max(channel.deadline, Deadline(nanoseconds: now.nanoseconds &+ 1))
    channel.queuedDeadline = deadline
    timers.insert(TimerEntry(deadline: deadline, token: channel.token))
  }

  private func discardStaleTimers() {
    timers = Heap(
      slots.compactMap { channel in
        guard let channel, channel.queuedDeadline != .never else { return nil }
        return TimerEntry(deadline: channel.queuedDeadline, token: channel.token)
      })
  }

  private func run() {
    unsafe cplatform_set_current_loop(Unmanaged.passUnretained(self).toOpaque())
    var ready: [SlotToken] = []
    runTasks()
    var turnEnded = Deadline.now
    while !isStopped {
      // A deadline that passed during the last turn was not late because of this wait.
      let due = max(firstDeadline, turnEnded)
      poller.wait(milliseconds: timeout(at: turnEnded), into: &ready)
      turns &+= 1
      now = .now
      lagRecord.turnBegan(at: now)
      servesSeveral = ready.count > 1
      // How long an event of the loop's own waits behind all ready descriptors: the poller reports them in turn.
      if lap.begins(isCrowded: ready.count >= Self.crowd, at: now) { post { self.lap.end() } }
      for token in ready { wake(token) }
      if ready.count >= Self.crowd { openDoors() }
      serveLowerRanks(&ready)
      if !ready.isEmpty { ready.removeAll(keepingCapacity: true) }
      fireTimers()
      runTasks()
      endTurn()
      turnEnded = .now
      lagRecord.turnEnded(from: now, to: turnEnded, due: due)
    }
    for case let channel? in slots { channel.close() }
    open(mailbox.close())
    runTasks()
    while !endings.isEmpty { endTurn() }
    cplatform_set_current_loop(nil)
  }

  /// Serves the channels of the lower ranks, and looks at the listeners in between.
  private func serveLowerRanks(_ ready: inout [SlotToken]) {
    let isCrowded = ready.count >= Self.crowd
    for rank in lowerRanks.indices {
      if !ready.isEmpty { ready.removeAll(keepingCapacity: true) }
      lowerRanks[rank].take(into: &ready, at: now, ifReadyOr: isCrowded)
      servesSeveral = servesSeveral || ready.count > 1
      for (position, token) in ready.enumerated() {
        wake(token)
        if position % Self.few == Self.few - 1 { openDoors() }
      }
    }
  }

  private func wake(_ token: SlotToken) {
    guard token.index != .max else { return wakeOwn(token) }
    channel(token)?.becameReady()
    // A task that became runnable runs first, because its connection's bytes are in the cache.
    runTasks()
  }

  private func wakeOwn(_ token: SlotToken) {
    if token == .mailbox { return open(mailbox.take()) }
    for (index, rank) in zip(lowerRanks.indices, [Rank.second, .last]) {
      if token == .poller(of: rank) { lowerRanks[index].isReady = true }
      if token == .lapMarker(of: rank) { lowerRanks[index].endLap() }
    }
  }

  private func openDoors() {
    doors.removeAll { channel($0) == nil }
    for token in doors {
      channel(token)?.lookEarly()
      runTasks()
    }
  }

  private func channel(_ token: SlotToken) -> Channel? {
    generations[Int(token.index)] == token.generation ? slots[Int(token.index)] : nil
  }

  private func open(_ letters: [Mailbox.Letter]) {
    for letter in letters {
      switch letter {
      case .job(let job): jobs.append(job)
      case .action(let action): action()
      }
    }
  }

  /// Runs all tasks that need not wait, including those that they start or resume. The loop does so after each ready
  /// descriptor; an action at the end of a turn may, to measure the tasks that it has resumed.
  public func runTasks() {
    assertCurrent()
    while nextJob < jobs.count {
      let job = jobs[nextJob]
      nextJob += 1
      unsafe job.runSynchronously(on: asUnownedTaskExecutor())
    }
    jobs.removeAll(keepingCapacity: true)
    nextJob = 0
  }

  /// Runs the actions for the end of the turn, which may enqueue more jobs and actions for the same turn.
  private func endTurn() {
    while !endings.isEmpty {
      swap(&endings, &presentEndings)
      for action in presentEndings { action() }
      // Both arrays keep their memory.
      presentEndings.removeAll(keepingCapacity: true)
      runTasks()
    }
    swap(&endings, &nextEndings)
    deadlineCount.endTurn()
  }

  private func fireTimers() {
    while let first = timers.min, first.deadline <= now {
      timers.removeMin()
      guard let channel = channel(first.token), channel.queuedDeadline == first.deadline else { continue }
      channel.queuedDeadline = .never
      if channel.deadline <= now { channel.end(.timedOut) } else { schedule(channel) }
    }
  }

  private var firstDeadline: Deadline { timers.min?.deadline ?? .never }

  /// Returns the milliseconds until the first deadline, rounded up so that it passes, or -1 without one.
  private func timeout(at now: Deadline) -> Int32 {
    guard endings.isEmpty, firstDeadline > now else { return 0 }
    guard firstDeadline != .never else { return -1 }
    return Int32(clamping: (firstDeadline.nanoseconds - now.nanoseconds + 999_999) / 1_000_000)
  }
}
