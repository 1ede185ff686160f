import CPlatform
import Glibc

/// What a wait on a channel came to.
public enum Readiness: Sendable {
  /// The descriptor can be read or written; trying will tell.
  case ready
  /// The deadline has passed first.
  case timedOut
  /// The channel was told to end its wait.
  case cancelled
}

/// Who is told about a channel that no task waits on: a listener, or a connection at rest.
public protocol ChannelDelegate: AnyObject {
  /// The wait has ended. Called on the loop, once for each `watch`.
  func channel(_ channel: Channel, became readiness: Readiness)
}

/// A non-blocking descriptor on its event loop: reads, writes, and waits that end at a deadline.
///
/// Confined to its loop, which is what makes it safe to capture in a task of that loop.
public final class Channel: @unchecked Sendable {
  // Sendable by confinement: every method runs on the loop's thread, which `IOLoop.assertCurrent` checks in debug.

  /// The loop that it lives on.
  public let loop: IOLoop

  let token: SlotToken
  /// Whether a peer is at the other end, for which the loop must never wait without a deadline.
  let isConnection: Bool
  private(set) var deadline = Deadline.never {
    didSet { if isConnection, isOpen { loop.noteDeadline(from: oldValue, to: deadline) } }
  }
  /// The earliest moment for which the loop's heap holds an entry of this channel.
  var queuedDeadline = Deadline.never

  private var descriptor: Descriptor?
  private var isOpen = true
  private var registered: Interest = []
  private var waiter = Waiter.none

  // Safe: `end` takes the waiter out before it resumes it, so a continuation is resumed exactly once.
  @safe private enum Waiter {
    case none
    case task(UnsafeContinuation<Readiness, Never>)
    case delegate(any ChannelDelegate)
  }

  init(_ descriptor: consuming Descriptor?, isConnection: Bool, loop: IOLoop, token: SlotToken) {
    self.descriptor = consume descriptor
    self.isConnection = isConnection
    self.loop = loop
    self.token = token
  }

  /// The kernel's number, -1 once closed. Use it for socket options only. Only the channel may close it.
  public var raw: Int32 { descriptor?.raw ?? -1 }

  /// The round trip to the peer as the kernel has measured it (TCP_INFO); nil if it has not. A relay hides what is behind
  /// it.
  public var roundTrip: Duration? {
    loop.assertCurrent()
    let microseconds = cplatform_round_trip(raw)
    return microseconds > 0 ? .microseconds(microseconds) : nil
  }

  // MARK: Waiting

  /// Waits until bytes can be read.
  public func readable(until deadline: Deadline) async -> Readiness {
    await wait(for: .read, until: deadline)
  }

  /// Waits until bytes can be written.
  public func writable(until deadline: Deadline) async -> Readiness {
    await wait(for: .write, until: deadline)
  }

  /// Waits until `deadline` only.
  public func pause(until deadline: Deadline) async -> Readiness {
    await wait(for: [], until: deadline)
  }

  private func wait(for interest: Interest, until deadline: Deadline) async -> Readiness {
    guard arm(interest, until: deadline) else { return .cancelled }
    return await unsafe withUnsafeContinuation { continuation in
      unsafe waiter = .task(continuation)
    }
  }

  /// Tells `delegate` once, when bytes can be read or `deadline` has passed; until then no task is needed.
  public func watch(until deadline: Deadline, _ delegate: any ChannelDelegate) {
    watch(for: .read, until: deadline, delegate)
  }

  /// Tells `delegate` once, when `deadline` has passed.
  public func sleep(until deadline: Deadline, _ delegate: any ChannelDelegate) {
    watch(for: [], until: deadline, delegate)
  }

  /// Tells `delegate` once, when the descriptor is ready for any of `interest` or `deadline` has passed.
  public func watch(for interest: Interest, until deadline: Deadline, _ delegate: any ChannelDelegate) {
    waiter = .delegate(delegate)
    if !arm(interest, until: deadline) { end(.cancelled) }
  }

  /// Forgets the delegate that waits: it hears no more. A task that waits keeps its deadline.
  public func unwatch() {
    loop.assertCurrent()
    guard case .delegate = waiter else { return }
    waiter = .none
    deadline = .never
  }

  /// Ends the present wait, if any.
  public func cancel() {
    end(.cancelled)
  }

  /// False if there is nothing left to wait on.
  private func arm(_ interest: Interest, until deadline: Deadline) -> Bool {
    loop.assertCurrent()
    guard isOpen, register(interest) else { return false }
    self.deadline = deadline
    loop.schedule(self)
    return true
  }

  private func register(_ interest: Interest) -> Bool {
    guard interest != registered, let raw = descriptor?.raw else { return true }
    do {
      try loop.poller.update(raw, from: registered, to: interest, token: token)
      registered = interest
      return true
    } catch {
      return false  // out of memory or of epoll watches: the wait ends as cancelled, its connection closes
    }
  }

  /// Called by the loop when the poller reports the descriptor.
  func becameReady() {
    loop.assertCurrent()
    guard case .none = waiter else { return end(.ready) }
    // No task waits at present. The descriptor is not watched until the next wait; otherwise the loop would spin.
    _ = register([])
  }

  func end(_ readiness: Readiness) {
    loop.assertCurrent()
    let waiter = self.waiter
    self.waiter = .none
    deadline = .never
    switch waiter {
    case .none: break
    case .task(let continuation): unsafe continuation.resume(returning: readiness)
    case .delegate(let delegate): delegate.channel(self, became: readiness)
    }
  }

  // MARK: Bytes

  /// What a read brought.
  public enum Reading: Sendable, Equatable {
    /// So many bytes were appended; fewer than asked for means that there are no more at present.
    case bytes(Int)
    /// Nothing at present.
    case wouldBlock
    /// The peer sends no more.
    case end
  }

  /// Appends what can be read at once to `bytes`, at most `limit` of it.
  public func receive(into bytes: inout [UInt8], atMost limit: Int) throws(SocketError) -> Reading {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { return .end }
    var count = 0
    bytes.append(addingCapacity: limit) { (output: inout OutputSpan<UInt8>) in
      unsafe output.withUnsafeMutableBufferPointer { buffer, initialized in
        // `capacity` may be more than asked for: what the caller bounds, is bounded.
        let room = min(limit, buffer.count - initialized)
        repeat {
          count = unsafe recv(raw, buffer.baseAddress?.advanced(by: initialized), room, 0)
        } while count < 0 && errno == EINTR
        initialized += max(count, 0)
      }
    }
    if count > 0 { return .bytes(count) }
    if count == 0 { return .end }
    if errno == EAGAIN || errno == EWOULDBLOCK { return .wouldBlock }
    throw SocketError(during: "recv")
  }

  /// Whether the peer has sent nothing that is unread, and no end: the socket is open and silent.
  public var isQuiet: Bool { peek() < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) }

  /// Whether bytes have arrived that have not been read.
  public var hasUnread: Bool { peek() > 0 }

  /// Whether the peer sends no more, or is gone, and nothing is left to read.
  public var isAtEnd: Bool {
    let count = peek()
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
  }

  private func peek() -> Int {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { return 0 }
    var byte: UInt8 = 0
    return unsafe recv(raw, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
  }

  /// Sends what the kernel takes at once of `bytes`; returns how many it took, 0 if it takes none at present.
  public func send(_ bytes: Span<UInt8>) throws(SocketError) -> Int {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { throw SocketError(call: "send", code: EPIPE) }
    let count = unsafe bytes.withUnsafeBufferPointer { buffer in
      var count = 0
      repeat {
        count = unsafe Glibc.send(raw, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL))
      } while count < 0 && errno == EINTR
      return count
    }
    if count >= 0 { return count }
    if errno == EAGAIN || errno == EWOULDBLOCK { return 0 }
    throw SocketError(during: "send")
  }

  /// Sends what the kernel takes at once of `head` and, behind it, `body`, in one system call.
  public func send(_ head: Span<UInt8>, _ body: Span<UInt8>) throws(SocketError) -> Int {
    loop.assertCurrent()
    guard !body.isEmpty else { return try send(head) }
    guard !head.isEmpty else { return try send(body) }
    guard let raw = descriptor?.raw else { throw SocketError(call: "sendmsg", code: EPIPE) }
    let count = unsafe head.withUnsafeBufferPointer { head in
      unsafe body.withUnsafeBufferPointer { body in
        // Safe: the kernel reads both within the call, and writes neither.
        let parts = unsafe [
          iovec(iov_base: UnsafeMutableRawPointer(mutating: head.baseAddress), iov_len: head.count),
          iovec(iov_base: UnsafeMutableRawPointer(mutating: body.baseAddress), iov_len: body.count),
        ]
        return unsafe Self.send(parts, on: raw)
      }
    }
    if count >= 0 { return count }
    if errno == EAGAIN || errno == EWOULDBLOCK { return 0 }
    throw SocketError(during: "sendmsg")
  }

  private static func send(_ parts: [iovec], on raw: Int32) -> Int {
    var parts = unsafe parts
    return unsafe parts.withUnsafeMutableBufferPointer { parts in
      var message = unsafe msghdr()
      unsafe message.msg_iov = parts.baseAddress
      unsafe message.msg_iovlen = .init(parts.count)
      var count = 0
      repeat {
        count = unsafe sendmsg(raw, &message, Int32(MSG_NOSIGNAL))
      } while count < 0 && errno == EINTR
      return count
    }
  }

  /// Bytes that were sent and that the peer has not acknowledged; 0 where the system does not tell.
  public var unacknowledged: Int {
    loop.assertCurrent()
    var count: Int32 = 0
    guard let raw = descriptor?.raw, unsafe ioctl(raw, UInt(TIOCOUTQ), &count) == 0 else { return 0 }
    return Int(count)
  }

  /// Says that no more will be sent; reading goes on.
  public func shutdownWriting() {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { return }
    shutdown(raw, Int32(SHUT_WR))
  }

  /// Lets `close` reset the connection rather than end it in good order, so that the peer knows that something is
  /// missing.
  public func resetOnClose() {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { return }
    var option = linger(l_onoff: 1, l_linger: 0)
    unsafe setsockopt(raw, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
  }

  /// Closes the descriptor and frees its slot. A wait under way ends as cancelled.
  public func close() {
    loop.assertCurrent()
    guard isOpen else { return }
    _ = register([])
    descriptor = nil
    if isConnection { loop.noteClose(at: deadline) }
    isOpen = false
    loop.free(self)
    end(.cancelled)
  }
}
