package import EventLoop
package import Memory
package import TLS

package enum ByteTransportEnd: Error {
  /// The peer closed the connection. Over TLS, `inOrder` tells whether a close_notify arrived (RFC 8446 §6.1).
  case closed(inOrder: Bool)
  /// A system call failed.
  case failed(SocketError)
  case failedTLS(TLSError)
  /// The peer reads nothing of what the transport sends.
  case stalled
  /// The peer does not answer a ping.
  case dead
  /// The event loop or the owner ended the transport.
  case ended
}

/// The receiver of a transport's events. The transport makes all calls on the loop.
package protocol ByteTransportOwner: AnyObject {
  /// Reports that the TLS handshake is complete.
  func transportBecameSecure(_ transport: ByteTransport)
  /// Reports that more bytes arrived in `transport.unread`.
  func transportReceived(_ transport: ByteTransport)
  /// Announces that `output` is about to be sent, so that the owner can append to it.
  func transportWillSend(_ transport: ByteTransport, _ output: inout [UInt8])
  /// Reports that the kernel has all output.
  func transportDrained(_ transport: ByteTransport)
  /// Reports that the deadline of the transport has passed.
  func transportTimedOut(_ transport: ByteTransport)
  /// Reports that the transport ended and is closed. This is the last call.
  func transportEnded(_ transport: ByteTransport, _ end: ByteTransportEnd)
}

extension ByteTransportOwner {
  package func transportBecameSecure(_ transport: ByteTransport) {}
  package func transportWillSend(_ transport: ByteTransport, _ output: inout [UInt8]) {}
  package func transportDrained(_ transport: ByteTransport) {}
}

/// A connected socket with or without TLS, without a task. Bytes that are written in a turn of the loop go out at its end.
package final class ByteTransport: ChannelDelegate {
  package let channel: Channel
  /// The receiver of the transport's events, until the transport has ended.
  package var owner: (any ByteTransportOwner)?
  /// The number of bytes that the kernel has accepted, TLS overhead included.
  package private(set) var bytesSent = 0
  package private(set) var tls: TLSSession?
  package private(set) var isOpen = true
  /// The time at which the owner receives `transportTimedOut`.
  package var deadline = Deadline.never { didSet { if deadline != oldValue { watch() } } }
  /// Whether the transport receives bytes. While it does not, the peer may have to wait, and its close goes unnoticed.
  package var isReading = true {
    didSet {
      guard isReading != oldValue else { return }
      account()
      watch()
    }
  }

  private let hold: MemoryHold
  private let writeProgress: Duration
  private var writeDeadline = Deadline.never
  /// Received plaintext. The owner has consumed the first `consumed` bytes.
  private(set) var input: [UInt8] = []
  private var consumed = 0
  /// Plaintext to be sent.
  private var output: [UInt8] = []
  /// Bytes for the socket. The kernel has accepted the first `sent`.
  private var outgoing: [UInt8] = []
  private var sent = 0
  private var isFlushDue = false
  private var isBusy = false

  private static let readSize = 65_536
  /// The most reads per event, so that a fast peer does not delay other connections.
  private static let readsInOneGo = 4
  /// The most capacity that an empty buffer keeps, in bytes: that of a read, and what the allocator adds to it.
  private static let keptCapacity = readSize + 4096

  package init(_ channel: Channel, writeProgress: Duration, hold: MemoryHold) {
    (self.channel, self.writeProgress, self.hold) = (channel, writeProgress, hold)
  }

  /// An upper bound of the bytes of a connection: TLS session, HTTP/2 session and the read buffer.
  package static let cost = 131_072

  /// Charges the connection, and the kernel's receive buffer while reading is off. The client has asked the budget before.
  private func account() { hold.force(to: isReading ? Self.cost : Self.cost + 2 * Connector.socketBuffer) }

  package var now: Deadline { channel.loop.now }

  package func start() {
    channel.loop.assertCurrent()
    account()
    watch()
  }

  /// The received bytes that the owner has not consumed. A copy that outlives the call of ``consume(_:)`` costs a buffer.
  package var unread: ArraySlice<UInt8> { input[consumed...] }
  package var hasUnread: Bool { consumed < input.count }

  /// Removes `count` bytes from the front of `unread`.
  package func consume(_ count: Int) {
    channel.loop.assertCurrent()
    consumed += count
    guard consumed == input.count else {
      // A peer that always sends the beginning of more must not make the transport keep what the owner has consumed. Each
      // removal moves at most one incomplete value, and follows as many consumed bytes as a read has.
      if consumed >= Self.readSize {
        input.removeFirst(consumed)
        consumed = 0
      }
      return
    }
    consumed = 0
    input.removeAll(keepingCapacity: input.capacity <= Self.keptCapacity)
  }

  /// Removes and returns the first `count` bytes of `unread`: the buffer itself, without a copy, if they fill much of it.
  package func take(_ count: Int) -> [UInt8] {
    channel.loop.assertCurrent()
    guard consumed == 0, count == input.count, count >= Self.readSize / 2 else {
      let bytes = Array(unread.prefix(count))
      consume(count)
      return bytes
    }
    var bytes: [UInt8] = []
    swap(&bytes, &input)
    return bytes
  }

  /// Whether there are no unread bytes and the peer has not closed the connection.
  package var isQuiet: Bool { isOpen && !hasUnread && channel.isQuiet }

  private func receive() throws(ByteTransportEnd) {
    for _ in 0..<Self.readsInOneGo where isOpen && isReading {
      let reading = tls == nil ? try read(into: &input) : try receiveRecords()
      switch reading {
      case .bytes(let count):
        if tls == nil { owner?.transportReceived(self) }
        if count < Self.readSize { return }
      case .wouldBlock: return
      case .end: throw .closed(inOrder: tls == nil)
      }
    }
  }

  private func read(into buffer: inout [UInt8]) throws(ByteTransportEnd) -> Channel.Reading {
    do { return try channel.receive(into: &buffer, atMost: Self.readSize) } catch { throw .failed(error) }
  }

  private func receiveRecords() throws(ByteTransportEnd) -> Channel.Reading {
    guard let tls else { return .wouldBlock }
    var ciphertext: [UInt8] = []
    let reading = try read(into: &ciphertext)
    let (before, wasEstablished) = (input.count, tls.isEstablished)
    defer { if !outgoing.isEmpty { flushSoon() } }
    let phase: TLSPhase
    do { phase = try tls.receive(ciphertext.span, plaintext: &input, outgoing: &outgoing) } catch {
      throw .failedTLS(error)
    }
    if phase != .handshaking, !wasEstablished { owner?.transportBecameSecure(self) }
    if input.count > before, isOpen { owner?.transportReceived(self) }
    if phase == .closedByPeer { throw .closed(inOrder: true) }
    return reading
  }

  /// The number of bytes still to be sent.
  package var backlog: Int { output.count + outgoing.count - sent }

  /// Lets `body` append to the output, and sends the output at the end of the turn.
  package func write<Failure: Error>(_ body: (inout [UInt8]) throws(Failure) -> Void) throws(Failure) {
    channel.loop.assertCurrent()
    try body(&output)
    flushSoon()
  }

  /// Sends the output at the end of the turn.
  package func flushSoon() {
    channel.loop.assertCurrent()
    guard !isFlushDue, isOpen else { return }
    isFlushDue = true
    channel.loop.atEndOfTurn { [self] in
      isFlushDue = false
      guard isOpen else { return }
      perform { () throws(ByteTransportEnd) in try flush() }
    }
  }

  private func flush() throws(ByteTransportEnd) {
    // The transport does not use the output while the owner appends to it.
    var collected: [UInt8] = []
    swap(&collected, &output)
    owner?.transportWillSend(self, &collected)
    collected += output
    output = collected
    guard isOpen else { return }
    try encrypt()
    guard sent < outgoing.count else { return }
    let before = sent
    while sent < outgoing.count {
      let count = try send()
      if count == 0 { break }
      sent += count
      bytesSent += count
    }
    if sent == outgoing.count {
      outgoing.removeAll(keepingCapacity: outgoing.capacity <= Self.keptCapacity)
      sent = 0
      writeDeadline = .never
      owner?.transportDrained(self)
    } else if sent > before || writeDeadline == .never {
      writeDeadline = now.advanced(by: writeProgress)
    }
  }

  private func send() throws(ByteTransportEnd) -> Int {
    let bytes = outgoing
    do { return try channel.send(bytes.span.extracting(sent...)) } catch { throw .failed(error) }
  }

  private func encrypt() throws(ByteTransportEnd) {
    guard !output.isEmpty else { return }
    guard let tls else {
      if outgoing.isEmpty { swap(&output, &outgoing) } else { outgoing += output }
      return output.removeAll(keepingCapacity: true)
    }
    guard tls.phase != .handshaking else { return }
    let plaintext = output
    do { try tls.send(plaintext.span, outgoing: &outgoing) } catch { throw .failedTLS(error) }
    output.removeAll(keepingCapacity: output.capacity <= Self.keptCapacity)
  }

  /// Starts a handshake. The transport encrypts everything written from now on.
  package func secure(with session: TLSSession) {
    channel.loop.assertCurrent()
    tls = session
    perform { () throws(ByteTransportEnd) in
      do throws(TLSError) { try session.start(outgoing: &outgoing) } catch { throw .failedTLS(error) }
      flushSoon()
    }
  }

  package func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    guard isOpen else { return }
    // Without an owner, no object would handle received bytes.
    guard owner != nil else { return end(.ended) }
    switch readiness {
    case .cancelled: end(.ended)
    case .timedOut:
      if now >= writeDeadline { return end(.stalled) }
      if now >= deadline { owner?.transportTimedOut(self) }
      watch()
    case .ready:
      perform { () throws(ByteTransportEnd) in
        if sent < outgoing.count { try flush() }
        if isReading { try receive() }
      }
    }
  }

  /// Runs `work`, and waits for more events or, if it throws, ends the transport.
  private func perform(_ work: () throws(ByteTransportEnd) -> Void) {
    let wasBusy = isBusy
    isBusy = true
    do throws(ByteTransportEnd) { try work() } catch {
      isBusy = wasBusy
      return end(error)
    }
    isBusy = wasBusy
    watch()
  }

  private func watch() {
    guard isOpen, !isBusy else { return }
    var interest: Interest = isReading ? .read : []
    if sent < outgoing.count { interest.insert(.write) }
    channel.watch(for: interest, until: min(deadline, writeDeadline), self)
  }

  /// Sends what the kernel accepts at once, and closes the transport without a call to the owner.
  package func close() {
    channel.loop.assertCurrent()
    owner = nil
    if isOpen { try? flush() }
    end(.ended)
  }

  /// Closes the transport without sending the output and without a call to the owner.
  package func abort() {
    channel.loop.assertCurrent()
    owner = nil
    (output, outgoing, sent) = ([], [], 0)
    end(.ended)
  }

  /// Closes the transport and reports the reason to the owner.
  package func end(_ end: ByteTransportEnd) {
    channel.loop.assertCurrent()
    guard isOpen else { return }
    isOpen = false
    if outgoing.isEmpty { tls?.close(outgoing: &outgoing) }
    // Sends an alert or close_notify. After a partial record it is garbage, but then the peer reads no further.
    if sent < outgoing.count { _ = try? send() }
    channel.close()
    (output, outgoing) = ([], [])
    let owner = owner
    self.owner = nil
    owner?.transportEnded(self, end)
  }
}
