import CPlatform
import Glibc

/// The result of a wait on a channel.
public enum Readiness: Sendable {
  /// The descriptor may be readable or writable; the caller has to try.
  case ready
  case timedOut, cancelled
}

/// The receiver of events of a channel that no task waits on: a listener, or an idle connection.
public protocol ChannelDelegate: AnyObject {
  /// Receives the end of a wait. The channel calls it on the loop, once for each `watch`.
  func channel(_ channel: Channel, became readiness: Readiness)
}

/// A non-blocking descriptor on its event loop, with reads, writes, and waits that end at a deadline.
public final class Channel: @unchecked Sendable {
  // Sendable by confinement, which `IOLoop.assertCurrent` checks in debug builds.
  /// The event loop of this channel.
  public let loop: IOLoop
  let token: SlotToken
  /// Whether this is a connection to a peer, for which the loop must never wait without a deadline.
  let isConnection: Bool
  private(set) var deadline = Deadline.never {
    didSet { if isConnection, isOpen { loop.deadlineCount.changed(from: oldValue, to: deadline) } }
  }
  /// The deadline of this channel's earliest entry in the loop's heap.
  var queuedDeadline = Deadline.never

  private var descriptor: Descriptor?
  private var isOpen = true
  private var wanted: Interest = []
  /// What the poller watches. It may be more than what is wanted, see `register`.
  private var registered: Interest = []
  /// When the loop serves this channel among all those that are ready.
  public var rank = Rank.first { didSet { if rank != oldValue { moveRegistration(from: oldValue) } } }
  private var waiter = Waiter.none

  // Safe: `end` removes the waiter before it resumes it, so a continuation is resumed exactly once.
  @safe private enum Waiter {
    case none
    case task(UnsafeContinuation<Readiness, Never>)
    case delegate(any ChannelDelegate)
  }

  init(_ descriptor: consuming Descriptor?, isConnection: Bool, loop: IOLoop, token: SlotToken) {
    self.descriptor = consume descriptor
    (self.isConnection, self.loop, self.token) = (isConnection, loop, token)
  }

  /// The kernel's number, or -1 after `close`. Use it only for socket options. Only the channel may close it.
  public var raw: Int32 { descriptor?.raw ?? -1 }

  /// The round-trip time to the peer or its relay as the kernel has measured it (TCP_INFO).
  public var roundTrip: Duration? {
    loop.assertCurrent()
    let microseconds = cplatform_round_trip(raw)
    return microseconds > 0 ? .microseconds(microseconds) : nil
  }

  /// The time when the peer's last bytes arrived, read or not, if the kernel knows it (TCP_INFO).
  public var lastArrival: Deadline? {
    loop.assertCurrent()
    let milliseconds = cplatform_milliseconds_since_data(raw)
    guard milliseconds >= 0 else { return nil }
    let (then, overflow) = Deadline.now.nanoseconds.subtractingReportingOverflow(UInt64(milliseconds) * 1_000_000)
    return overflow ? nil : Deadline(nanoseconds: then)
  }

  /// Waits until the descriptor is ready for any of `interest` or `deadline` has passed.
  public func wait(for interest: Interest, until deadline: Deadline) async -> Readiness {
    guard arm(interest, until: deadline) else { return .cancelled }
    return await unsafe withUnsafeContinuation { continuation in unsafe waiter = .task(continuation) }
  }

  /// Calls `delegate` once, when `deadline` has passed.
  public func sleep(until deadline: Deadline, _ delegate: any ChannelDelegate) {
    watch(for: [], until: deadline, delegate)
  }

  /// Calls `delegate` once, when the descriptor is ready for any of `interest` or `deadline` has passed.
  public func watch(for interest: Interest = .read, until deadline: Deadline, _ delegate: any ChannelDelegate) {
    waiter = .delegate(delegate)
    if !arm(interest, until: deadline) { end(.cancelled) }
  }

  /// Removes the waiting delegate, which receives no more events. A waiting task keeps its deadline.
  public func unwatch() {
    loop.assertCurrent()
    guard case .delegate = waiter else { return }
    waiter = .none
    deadline = .never
  }

  /// Cancels the present wait, if any.
  public func cancel() { end(.cancelled) }

  /// Starts a wait. Returns false if the channel is closed or the poller fails.
  private func arm(_ interest: Interest, until deadline: Deadline) -> Bool {
    loop.assertCurrent()
    guard isOpen, register(interest) else { return false }
    self.deadline = deadline
    loop.schedule(self)
    return true
  }

  /// Makes the poller watch for `interest`. A wait for a deadline only leaves the registration as it is: most such waits end
  /// before an event, and then the next wait needs no system call.
  private func register(_ interest: Interest) -> Bool {
    wanted = interest
    guard !interest.isEmpty, interest != registered, let raw = descriptor?.raw else { return true }
    do {
      try loop.poller(of: rank).update(raw, from: registered, to: interest, token: token)
      registered = interest
      return true
    } catch {
      return false  // out of memory or of epoll watches: the wait ends as cancelled, and its connection closes
    }
  }

  private func unregister(from rank: Rank) {
    guard !registered.isEmpty, let raw = descriptor?.raw else { return }
    try? loop.poller(of: rank).update(raw, from: registered, to: [], token: token)
    registered = []
  }

  private func moveRegistration(from old: Rank) {
    loop.assertCurrent()
    guard !registered.isEmpty else { return }
    unregister(from: old)
    // If the poller fails, the next wait tries again, and ends as cancelled.
    _ = register(wanted)
  }

  /// Ends the wait as ready. The loop calls it when the poller reports the descriptor.
  func becameReady() {
    if !wanted.isEmpty, isWaiting { return end(.ready) }
    // Nothing waits for the descriptor until the next wait; watched, it would spin the loop.
    unregister(from: rank)
  }

  private var isWaiting: Bool { if case .none = waiter { false } else { true } }

  /// Ends a wait for bytes as ready, although the poller has not reported the descriptor in this turn.
  func lookEarly() { if wanted.contains(.read) { end(.ready) } }

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

  /// The result of a read.
  public enum Reading: Sendable, Equatable {
    /// The number of appended bytes. Fewer than requested means that no more are available at present.
    case bytes(Int)
    case wouldBlock
    /// The peer has closed its sending side.
    case end
  }

  /// Reads available bytes, at most `limit`, and appends them to `bytes`.
  public func receive(into bytes: inout [UInt8], atMost limit: Int) throws(SocketError) -> Reading {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { return .end }
    var count: Int?
    try bytes.append(addingCapacity: limit) { (output: inout OutputSpan<UInt8>) throws(SocketError) in
      unsafe try output.withUnsafeMutableBufferPointer { buffer, initialized throws(SocketError) in
        // The buffer may be larger than requested, but the read must not exceed the caller's limit.
        let room = min(limit, buffer.count - initialized)
        let end = unsafe buffer.baseAddress?.advanced(by: initialized)
        count = try attempt("recv") { unsafe recv(raw, end, room, 0) }
        initialized += count ?? 0
      }
    }
    guard let count else { return .wouldBlock }
    return count > 0 ? .bytes(count) : .end
  }

  /// Makes a system call, again if a signal has interrupted it. Returns nil if it would block.
  private func attempt(_ name: String, _ call: () -> Int) throws(SocketError) -> Int? {
    while true {
      let count = call()
      if count >= 0 { return count }
      if errno == EAGAIN || errno == EWOULDBLOCK { return nil }
      guard errno == EINTR else { throw SocketError(during: name) }
    }
  }

  /// Whether the connection is open and the peer has sent no unread bytes.
  public var isQuiet: Bool { peek() < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) }

  /// Whether the peer has closed or reset the connection, and no bytes are left to read.
  public var isAtEnd: Bool {
    let count = peek()
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
  }

  /// Whether unread bytes have arrived.
  public var hasInput: Bool { peek() > 0 }

  private func peek() -> Int {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { return 0 }
    var byte: UInt8 = 0
    return unsafe recv(raw, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
  }

  /// Sends as much of `bytes` as the kernel accepts now, and returns the number of bytes, which may be 0. If `close` follows,
  /// the last bytes and the end go out in one packet.
  public func send(_ bytes: Span<UInt8>, closes: Bool = false) throws(SocketError) -> Int {
    loop.assertCurrent()
    guard let raw = descriptor?.raw else { throw SocketError(call: "send", code: EPIPE) }
    let flags = Int32(MSG_NOSIGNAL) | (closes ? cplatform_more_follows() : 0)
    return try unsafe bytes.withUnsafeBufferPointer { buffer throws(SocketError) in
      try attempt("send") { unsafe Glibc.send(raw, buffer.baseAddress, buffer.count, flags) } ?? 0
    }
  }

  /// Sends as much of `head` followed by `body` as the kernel accepts now, in one system call.
  public func send(_ head: Span<UInt8>, _ body: Span<UInt8>) throws(SocketError) -> Int {
    loop.assertCurrent()
    guard !body.isEmpty else { return try send(head) }
    guard !head.isEmpty else { return try send(body) }
    guard let raw = descriptor?.raw else { throw SocketError(call: "sendmsg", code: EPIPE) }
    return try unsafe head.withUnsafeBufferPointer { head throws(SocketError) in
      try unsafe body.withUnsafeBufferPointer { body throws(SocketError) in
        // Safe: the kernel only reads both buffers, and only within the call.
        var parts = unsafe [
          iovec(iov_base: UnsafeMutableRawPointer(mutating: head.baseAddress), iov_len: head.count),
          iovec(iov_base: UnsafeMutableRawPointer(mutating: body.baseAddress), iov_len: body.count),
        ]
        return try unsafe parts.withUnsafeMutableBufferPointer { parts throws(SocketError) in
          var message = unsafe msghdr()
          unsafe message.msg_iov = parts.baseAddress
          unsafe message.msg_iovlen = .init(parts.count)
          return try attempt("sendmsg") { unsafe sendmsg(raw, &message, Int32(MSG_NOSIGNAL)) } ?? 0
        }
      }
    }
  }

  /// The number of sent bytes that the peer has not acknowledged, or 0 if the system does not report it.
  public var unacknowledged: Int {
    loop.assertCurrent()
    var count: Int32 = 0
    return unsafe ioctl(raw, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
  }

  /// Closes the sending side of the connection; reading continues.
  public func shutdownWriting() {
    loop.assertCurrent()
    shutdown(raw, Int32(SHUT_WR))
  }

  /// Makes `close` reset the connection instead of closing it normally, so that the peer knows that data is missing.
  public func resetOnClose() {
    loop.assertCurrent()
    var option = linger(l_onoff: 1, l_linger: 0)
    unsafe setsockopt(raw, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
  }

  /// Closes the descriptor and frees its slot. A pending wait ends as cancelled.
  public func close() {
    loop.assertCurrent()
    guard isOpen else { return }
    // epoll forgets a connection with its only descriptor. A listener may have others, in other processes.
    if !isConnection || !loop.poller(of: rank).forgetsClosed { unregister(from: rank) }
    descriptor = nil
    if isConnection { loop.deadlineCount.changed(from: deadline, to: nil) }
    isOpen = false
    loop.free(self)
    end(.cancelled)
  }
}
