import CPlatform
import Glibc

/// The events that a wait on a descriptor is for.
public struct Interest: OptionSet, Sendable {
  /// The bits of the set.
  public let rawValue: UInt8

  /// Creates a set from its bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Bytes, a connection or the end can be read.
  public static let read = Interest(rawValue: 1)
  /// Bytes can be written, or a connection attempt has ended.
  public static let write = Interest(rawValue: 2)
  /// The peer has closed its sending side, even if earlier bytes are unread.
  public static let hangup = Interest(rawValue: 4)
}

/// The identity of a slot and its channel, by which the loop drops an event of a descriptor closed in the same turn.
struct SlotToken: Hashable {
  let index: UInt32
  let generation: UInt32

  // The loop's own descriptors have no slot.
  static let mailbox = SlotToken(index: .max, generation: 0)
  static func poller(of rank: Rank) -> SlotToken { SlotToken(index: .max, generation: UInt32(rank.rawValue)) }
  static func lapMarker(of rank: Rank) -> SlotToken { SlotToken(index: .max, generation: 0x10 | UInt32(rank.rawValue)) }
}

/// A source of readiness events for descriptors. It is level-triggered: it repeats an event until the cause is gone.
///
/// A descriptor without interest is not watched, not even for errors: a peer's reset must not spin the loop meanwhile.
protocol Poller: AnyObject {
  /// Whether a descriptor that is closed, and has no duplicate, is not watched any more.
  var forgetsClosed: Bool { get }
  /// Changes the watched events of `descriptor` from `old` to `new`.
  func update(_ descriptor: Int32, from old: Interest, to new: Interest, token: SlotToken) throws(SocketError)
  /// Waits for at most `milliseconds` (forever if negative) and appends the slots that are ready.
  func wait(milliseconds: Int32, into ready: inout [SlotToken])
}

/// A poller with epoll(7). The kernel keeps the list, so an idle connection costs nothing per turn.
// Safe: only the member of the union in `epoll_event` that was written, `u64`, is ever read.
@safe final class EpollPoller: Poller {
  let descriptor: Descriptor
  private var events: [epoll_event]
  var forgetsClosed: Bool { true }

  init(atMost most: Int) throws(SocketError) {
    let raw = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard raw >= 0 else { throw SocketError(during: "epoll_create1") }
    descriptor = Descriptor(owning: raw)
    unsafe events = unsafe [epoll_event](repeating: epoll_event(), count: most)
  }

  func update(_ watched: Int32, from old: Interest, to new: Interest, token: SlotToken) throws(SocketError) {
    guard old != new else { return }
    var event = unsafe epoll_event()
    unsafe event.events =
      (new.contains(.read) ? EPOLLIN.rawValue : 0) | (new.contains(.write) ? EPOLLOUT.rawValue : 0)
      | (new.contains(.hangup) ? EPOLLRDHUP.rawValue : 0)
    unsafe event.data.u64 = UInt64(token.index) << 32 | UInt64(token.generation)
    // epoll always reports errors and hang-ups of registered descriptors, so no interest means no registration.
    let operation = old.isEmpty ? EPOLL_CTL_ADD : new.isEmpty ? EPOLL_CTL_DEL : EPOLL_CTL_MOD
    guard unsafe epoll_ctl(descriptor.raw, operation, watched, &event) == 0 else {
      throw SocketError(during: "epoll_ctl")
    }
  }

  func wait(milliseconds: Int32, into ready: inout [SlotToken]) {
    let count = unsafe events.withUnsafeMutableBufferPointer { buffer in
      // glibc 2.36 lets the buffer be nil, 2.41 does not: a pointer that is not optional suits both.
      guard let start = buffer.baseAddress else { return Int32(0) }
      return unsafe epoll_wait(descriptor.raw, start, Int32(buffer.count), milliseconds)
    }
    // A signal (EINTR) is a turn without events.
    guard count > 0 else { return }
    for index in 0..<Int(count) {
      let data = unsafe events[index].data.u64
      ready.append(
        SlotToken(index: UInt32(truncatingIfNeeded: data >> 32), generation: UInt32(truncatingIfNeeded: data)))
    }
  }
}

/// A poller with POSIX poll(2), for kernels that deny epoll. It passes the whole list to the kernel at each turn.
final class PollPoller: Poller {
  private var entries: [pollfd] = []
  private var tokens: [SlotToken] = []
  private var positions: [Int32: Int] = [:]
  var forgetsClosed: Bool { false }

  func update(_ watched: Int32, from old: Interest, to new: Interest, token: SlotToken) throws(SocketError) {
    guard let position = positions[watched] else {
      if new.isEmpty { return }
      positions[watched] = entries.count
      entries.append(pollfd(fd: watched, events: new.pollEvents, revents: 0))
      return tokens.append(token)
    }
    guard !new.isEmpty else { return remove(at: position) }
    entries[position].events = new.pollEvents
    tokens[position] = token
  }

  private func remove(at position: Int) {
    positions[entries[position].fd] = nil
    let last = entries.removeLast()
    let token = tokens.removeLast()
    guard position < entries.count else { return }
    entries[position] = last
    tokens[position] = token
    positions[last.fd] = position
  }

  func wait(milliseconds: Int32, into ready: inout [SlotToken]) {
    let count = unsafe entries.withUnsafeMutableBufferPointer { buffer in
      unsafe poll(buffer.baseAddress, nfds_t(buffer.count), milliseconds)
    }
    guard count > 0 else { return }
    for (position, entry) in entries.enumerated() where entry.revents != 0 { ready.append(tokens[position]) }
  }
}

extension Interest {
  fileprivate var pollEvents: Int16 {
    Int16((contains(.read) ? POLLIN : 0) | (contains(.write) ? POLLOUT : 0))
      | (contains(.hangup) ? cplatform_poll_hangup() : 0)
  }
}

/// The order in which a loop with epoll serves ready channels, so that costly ones, or many of one client, delay no other.
public enum Rank: Int, Sendable {
  /// In each turn, the loop serves all of these that are ready, or a crowd.
  case first
  /// Then come connections to servers: what they bring costs as much as many requests of clients.
  case second
  /// At last come connections that have to wait for others, because their client has more work than its share.
  case last

  /// The most channels of this rank in a turn, which costs one more system call for each rank with a ready channel.
  var most: Int { self == .second ? 16 : IOLoop.crowd }
}

/// The channels of a rank after the first. Their poller is a descriptor of the first rank's poller.
struct LowerRank {
  let poller: any Poller
  /// Whether the first rank's poller has reported this one in the present turn.
  var isReady = false
  private var lap = Lap()
  /// Whether there may be more ready channels than the present turn serves.
  private var isCrowded = false
  private let rank: Rank
  /// A descriptor that is always ready for writing. While a lap is measured, it waits in this rank for its turn.
  private let marker: Int32

  init(_ rank: Rank, poller: any Poller, marker: Int32) {
    (self.rank, self.poller, self.marker) = (rank, poller, marker)
  }

  /// How long a channel of this rank waits until it is served.
  var delay: Duration { lap.length }

  /// Appends the channels to serve in this turn. If the first rank `isCrowded`, its poller may not have reported this one.
  mutating func take(into ready: inout [SlotToken], at now: Deadline, ifReadyOr firstIsCrowded: Bool) {
    let mayBeReady = isReady || firstIsCrowded
    isReady = false
    if mayBeReady { poller.wait(milliseconds: 0, into: &ready) }
    isCrowded = ready.count >= rank.most
    if lap.begins(isCrowded: isCrowded, at: now) {
      // It fails if there is no memory or epoll watch left.
      do { try poller.update(marker, from: [], to: .write, token: .lapMarker(of: rank)) } catch { lap.end() }
    }
  }

  /// Ends the lap, because its marker is served.
  mutating func endLap() {
    try? poller.update(marker, from: .write, to: [], token: .lapMarker(of: rank))
    // This turn serves all, and the next one may come much later.
    if isCrowded { lap.end() } else { lap = Lap() }
  }
}

/// The time in which a loop serves every ready channel of a rank once.
struct Lap {
  private var last = Duration.zero
  private var began: Deadline?

  /// The last lap, or the present one if it is longer already.
  var length: Duration { max(last, began.map { Deadline.now.duration(since: $0) } ?? .zero) }

  /// Returns whether a lap begins: then call `end` when the loop serves what is ready from now on.
  mutating func begins(isCrowded: Bool, at now: Deadline) -> Bool {
    guard began == nil else { return false }
    guard isCrowded else {
      last = .zero
      return false
    }
    began = now
    return true
  }

  mutating func end() {
    last = began.map { Deadline.now.duration(since: $0) } ?? .zero
    began = nil
  }
}
