import CPlatform
import Dispatch
import Glibc
import HeapModule
import Locks

/// One thread that serves many descriptors: it waits until some are ready, tells who waits for them, and runs the
/// tasks that prefer it until they wait again. A task executor, so that `async` code never leaves the thread.
///
/// The thread is its own. Everything but `isCurrent`, `enqueue`, `post`, `performAndWait` and `stop` is confined to it.
public final class IOLoop: TaskExecutor, @unchecked Sendable {
  // Sendable: what other threads may touch is in `mailbox`, behind its lock; the rest is confined to the thread.

  /// Which system interface tells about readiness.
  public enum PollerKind: String, Sendable, CaseIterable {
    /// epoll(7), Linux only.
    case epoll
    /// poll(2), everywhere.
    case poll

    /// `epoll` where there is one.
    public static var platformDefault: PollerKind {
      #if os(Linux)
        .epoll
      #else
        .poll
      #endif
    }
  }

  /// The moment when the present turn began.
  public private(set) var now = Deadline.now

  let poller: any Poller
  private let mailbox: Mailbox
  private var jobs: [UnownedJob] = []
  private var slots: [Channel?] = []
  private var generations: [UInt32] = []
  private var freeSlots: [UInt32] = []
  private var timers = Heap<TimerEntry>()
  private var endings: [() -> Void] = []
  private var isStopped = false
  /// Set before any other object knows the loop.
  private var thread: Thread?

  /// Counts the connections for which the loop would wait for ever.
  let deadlineCount = DeadlineCount()

  /// Connections that had no deadline at the end of the last turn: always 0, unless this program has a defect. From any
  /// thread.
  public var connectionsWithoutDeadline: Int { deadlineCount.atEndOfTurn }

  /// How often the loop has waited: tells a loop that spins from one that rests.
  private(set) var turns = 0
  /// Entries in the heap, those of channels that are gone included.
  var timerCount: Int { timers.count }

  /// Channels that are open.
  var channelCount: Int { slots.count - freeSlots.count }

  private struct TimerEntry: Comparable {
    let deadline: Deadline
    let token: SlotToken
    static func < (left: TimerEntry, right: TimerEntry) -> Bool { left.deadline < right.deadline }
  }

  /// Makes a loop and starts it on a thread of its own.
  ///
  /// Throws when the system has no descriptors left for the poller and the wake-up pipe, or grants no thread.
  public static func start(label: String, poller kind: PollerKind = .platformDefault) throws(SocketError) -> IOLoop {
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
    switch kind {
    #if os(Linux)
      case .epoll: poller = try EpollPoller()
    #else
      case .epoll: throw SocketError(call: "epoll_create1", code: ENOSYS)
    #endif
    case .poll: poller = PollPoller()
    }
    mailbox = try Mailbox()
    try poller.update(mailbox.readEnd, from: [], to: .read, token: Self.mailboxToken)
  }

  private static let mailboxToken = SlotToken(index: .max, generation: 0)

  // MARK: From any thread

  /// Whether the calling thread is the loop's.
  public var isCurrent: Bool {
    unsafe cplatform_current_loop() == Unmanaged.passUnretained(self).toOpaque()
  }

  /// Runs a job of a task that prefers this loop, on its thread.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if isCurrent {
      jobs.append(job)
    } else {
      _ = mailbox.post(.job(job))
    }
  }

  /// Runs `action` on the loop's thread, in the order of the calls. False, and nothing is run, if the loop has ended.
  @discardableResult
  public func post(_ action: @escaping @Sendable () -> Void) -> Bool {
    mailbox.post(.action(action))
  }

  /// Runs `action` on the loop's thread and waits for it; does nothing if the loop has ended. Not from a loop: two that
  /// wait for each other wait for ever.
  public func performAndWait(_ action: @escaping @Sendable () -> Void) {
    let done = DispatchSemaphore(value: 0)
    let isPosted = post {
      action()
      done.signal()
    }
    if isPosted { done.wait() }
  }

  /// Lets the loop end after its present turn. Descriptors still open are closed.
  public func stop() {
    post { self.isStopped = true }
  }

  /// Lets the loop end, and waits until its thread has. A process must not run its exit handlers, such as OpenSSL's,
  /// while a loop still closes its connections. Once, and not from a loop.
  public func stopAndWait() {
    stop()
    thread?.join()
  }

  /// Stops a debug build if the calling thread is not the loop's: methods that are confined to it begin with this.
  public func assertCurrent() {
    assert(isCurrent, "called from outside the event loop")
  }

  // MARK: On the loop

  /// Takes a descriptor, which must be non-blocking, into the loop's care.
  public func open(_ descriptor: consuming Descriptor) -> Channel {
    makeChannel(consume descriptor, isConnection: false)
  }

  /// Takes the socket of a connection into the loop's care. From the end of the present turn to its close it must always
  /// wait for something with a deadline.
  public func openConnection(_ descriptor: consuming Descriptor) -> Channel {
    makeChannel(consume descriptor, isConnection: true)
  }

  /// A channel without a descriptor, for waits that only a deadline or `cancel` ends. To be closed like any other.
  public func openTimer() -> Channel {
    makeChannel(nil, isConnection: false)
  }

  /// Runs `action` at the end of the present turn, when all that was ready is dealt with and no job is left: what many
  /// of them have to say can go out at once.
  public func atEndOfTurn(_ action: @escaping () -> Void) {
    assertCurrent()
    endings.append(action)
  }

  private func makeChannel(_ descriptor: consuming Descriptor?, isConnection: Bool) -> Channel {
    assertCurrent()
    let index = freeSlots.popLast() ?? UInt32(slots.count)
    if index == slots.count {
      slots.append(nil)
      generations.append(0)
    }
    let token = SlotToken(index: index, generation: generations[Int(index)])
    let channel = Channel(consume descriptor, isConnection: isConnection, loop: self, token: token)
    if isConnection { deadlineCount.opened() }
    slots[Int(index)] = channel
    return channel
  }

  func noteDeadline(from old: Deadline, to new: Deadline) {
    assertCurrent()
    deadlineCount.changed(from: old, to: new)
  }

  func noteClose(at deadline: Deadline) {
    assertCurrent()
    deadlineCount.closed(at: deadline)
  }

  func free(_ channel: Channel) {
    assertCurrent()
    let index = Int(channel.token.index)
    slots[index] = nil
    generations[index] &+= 1
    freeSlots.append(channel.token.index)
  }

  /// Sees to it that the channel hears of its deadline. Most deadlines are moved before they come: an entry that is
  /// early enough already is left alone, and put right when it comes up.
  func schedule(_ channel: Channel) {
    assertCurrent()
    guard channel.deadline < channel.queuedDeadline else { return }
    // Short connections leave entries that come up long after them: more of those than of others are thrown out.
    if timers.count > 2 * slots.count + 64 { discardStaleTimers() }
    channel.queuedDeadline = channel.deadline
    timers.insert(TimerEntry(deadline: channel.deadline, token: channel.token))
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
    runJobs()
    while !isStopped {
      poller.wait(milliseconds: timeout(), into: &ready)
      turns &+= 1
      now = .now
      for token in ready { wake(token) }
      ready.removeAll(keepingCapacity: true)
      fireTimers()
      runJobs()
      endTurn()
    }
    for case let channel? in slots { channel.close() }
    open(mailbox.close())
    runJobs()
    cplatform_set_current_loop(nil)
  }

  private func wake(_ token: SlotToken) {
    guard token != Self.mailboxToken else { return open(mailbox.take()) }
    channel(token)?.becameReady()
    // A task that became runnable goes first: its connection's bytes are warm in the cache.
    runJobs()
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

  /// Runs the jobs there are and those that they enqueue.
  private func runJobs() {
    var next = 0
    while next < jobs.count {
      unsafe jobs[next].runSynchronously(on: asUnownedTaskExecutor())
      next += 1
    }
    jobs.removeAll(keepingCapacity: true)
  }

  /// What ends a turn may bring about more to do in it.
  private func endTurn() {
    while !endings.isEmpty {
      let actions = endings
      endings.removeAll(keepingCapacity: true)
      for action in actions { action() }
      runJobs()
    }
    deadlineCount.endTurn()
  }

  private func fireTimers() {
    while let first = timers.min, first.deadline <= now {
      timers.removeMin()
      guard let channel = channel(first.token), channel.queuedDeadline == first.deadline else { continue }
      channel.queuedDeadline = .never
      if channel.deadline <= now {
        channel.end(.timedOut)
      } else {
        schedule(channel)
      }
    }
  }

  /// Milliseconds until the first deadline, rounded up so that it has passed when the wait ends; -1 without one.
  private func timeout() -> Int32 {
    guard let first = timers.min, first.deadline != .never else { return -1 }
    let left = first.deadline.nanoseconds.subtractingReportingOverflow(now.nanoseconds)
    guard !left.overflow else { return 0 }
    return Int32(clamping: (left.partialValue + 999_999) / 1_000_000)
  }
}
