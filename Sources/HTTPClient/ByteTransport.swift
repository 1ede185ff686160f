import EventLoop
import Memory
import TLS

/// Why a link is over.
enum ByteTransportEnd: Error {
  /// The peer closed it; over TLS, in due form or not (RFC 8446 §6.1).
  case closed(inOrder: Bool)
  /// A system call failed.
  case failed(SocketError)
  /// The TLS session did.
  case failedTLS(TLSError)
  /// The peer takes nothing of what is sent.
  case stalled
  /// The peer gives no sign of life.
  case dead
  /// Its loop or its owner ends it.
  case ended
}

/// What a link tells its owner. All calls are on the loop.
protocol ByteTransportOwner: AnyObject {
  /// The TLS handshake is done.
  func linkBecameSecure(_ link: ByteTransport)
  /// More has been received: `link.unread`.
  func linkReceived(_ link: ByteTransport)
  /// `output` is about to be sent: the last moment to add some.
  func linkWillSend(_ link: ByteTransport, _ output: inout [UInt8])
  /// All output is with the kernel.
  func linkDrained(_ link: ByteTransport)
  /// Its deadline has passed.
  func linkTimedOut(_ link: ByteTransport)
  /// It is over, and closed. The last call.
  func linkEnded(_ link: ByteTransport, _ end: ByteTransportEnd)
}

extension ByteTransportOwner {
  func linkBecameSecure(_ link: ByteTransport) {}
  func linkWillSend(_ link: ByteTransport, _ output: inout [UInt8]) {}
  func linkDrained(_ link: ByteTransport) {}
}

/// A connected socket, with TLS or without, driven by its loop's events: no task belongs to it.
///
/// What is written in a turn of the loop goes out at its end, in one piece. Confined to its loop.
final class ByteTransport: ChannelDelegate {
  let channel: Channel
  weak var owner: (any ByteTransportOwner)?

  /// Bytes that the kernel has taken, or TLS has, counted as the socket's.
  private(set) var bytesSent = 0
  private(set) var tls: TLSSession?
  private(set) var isOpen = true

  /// When the owner is to be told that it is late.
  var deadline = Deadline.never { didSet { if deadline != oldValue { watch() } } }
  /// Whether bytes are received at present. The peer can be made to wait; its end is not noticed meanwhile.
  var isReading = true {
    didSet {
      guard isReading != oldValue else { return }
      account()
      watch()
    }
  }

  private let hold: MemoryHold
  private let writeProgress: Duration
  private var writeDeadline = Deadline.never
  /// Received plaintext, of which the first `consumed` bytes are dealt with.
  private var input: [UInt8] = []
  private var consumed = 0
  /// Plaintext to be sent.
  private var output: [UInt8] = []
  /// Bytes on their way to the socket, of which it has taken the first `sent`.
  private var outgoing: [UInt8] = []
  private var sent = 0
  private var isFlushDue = false
  private var isBusy = false

  /// The most to read at once.
  private static let readSize = 65_536
  /// Reads in one turn, so that a fast peer leaves the others their turn.
  private static let readsInOneGo = 4
  /// What a buffer may keep of its size when it is empty.
  private static let keptCapacity = 65_536

  init(_ channel: Channel, writeProgress: Duration, hold: MemoryHold) {
    self.hold = hold
    self.channel = channel
    self.writeProgress = writeProgress
  }

  /// Bytes that a connection holds by itself, from above: TLS session, HTTP/2 session and the buffer that it reads into.
  static let cost = 131_072

  /// Charges the connection, and what the kernel takes of what is not read at present. Nothing of it can be refused any
  /// more: the client asks the budget before it dials.
  private func account() {
    hold.force(to: isReading ? Self.cost : Self.cost + 2 * Connector.socketBuffer)
  }

  var now: Deadline { channel.loop.now }

  /// Begins to wait for events.
  func start() {
    channel.loop.assertCurrent()
    account()
    watch()
  }

  // MARK: Reading

  /// Received bytes that have not been consumed.
  var unread: ArraySlice<UInt8> { input[consumed...] }

  /// Removes so many bytes from the front of `unread`.
  func consume(_ count: Int) {
    channel.loop.assertCurrent()
    consumed += count
    guard consumed == input.count else { return }
    consumed = 0
    input.removeAll(keepingCapacity: input.capacity <= Self.keptCapacity)
  }

  /// Whether no byte is unread, and the peer has not ended the connection.
  var isQuiet: Bool { isOpen && unread.isEmpty && channel.isQuiet }

  private func receive() throws(ByteTransportEnd) {
    for _ in 0..<Self.readsInOneGo where isOpen && isReading {
      let reading = tls == nil ? try read(into: &input) : try receiveRecords()
      switch reading {
      case .bytes(let count):
        if tls == nil { owner?.linkReceived(self) }
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
    let state: TLSSession.State
    do {
      state = try tls.receive(ciphertext.span, plaintext: &input, outgoing: &outgoing)
    } catch {
      throw .failedTLS(error)
    }
    if state != .handshaking, !wasEstablished { owner?.linkBecameSecure(self) }
    if input.count > before, isOpen { owner?.linkReceived(self) }
    if state == .closedByPeer { throw .closed(inOrder: true) }
    return reading
  }

  // MARK: Writing

  /// How much is still to be sent.
  var backlog: Int { output.count + outgoing.count - sent }

  /// Lets `body` append to what is sent at the end of the turn.
  func write(_ body: (inout [UInt8]) -> Void) {
    channel.loop.assertCurrent()
    body(&output)
    flushSoon()
  }

  /// Sends at the end of the turn what there is then.
  func flushSoon() {
    channel.loop.assertCurrent()
    guard !isFlushDue, isOpen else { return }
    isFlushDue = true
    channel.loop.atEndOfTurn { [self] in
      isFlushDue = false
      guard isOpen else { return }
      perform { () throws(ByteTransportEnd) in try flush() }
    }
  }

  /// Sends at once what there is.
  func flushNow() {
    channel.loop.assertCurrent()
    guard isOpen else { return }
    perform { () throws(ByteTransportEnd) in try flush() }
  }

  private func flush() throws(ByteTransportEnd) {
    collect()
    guard isOpen else { return }
    try encrypt()
    guard sent < outgoing.count else { return }
    let before = sent
    while sent < outgoing.count {
      let count = try send(outgoing)
      if count == 0 { break }
      sent += count
      bytesSent += count
    }
    if sent == outgoing.count {
      outgoing.removeAll(keepingCapacity: outgoing.capacity <= Self.keptCapacity)
      sent = 0
      writeDeadline = .never
      owner?.linkDrained(self)
    } else if sent > before || writeDeadline == .never {
      writeDeadline = now.advanced(by: writeProgress)
    }
  }

  private func send(_ bytes: [UInt8]) throws(ByteTransportEnd) -> Int {
    do { return try channel.send(bytes.span.extracting(sent...)) } catch { throw .failed(error) }
  }

  private func encrypt(_ plaintext: [UInt8], with tls: TLSSession) throws(ByteTransportEnd) {
    do { try tls.send(plaintext.span, outgoing: &outgoing) } catch { throw .failedTLS(error) }
  }

  /// Lets the owner add to the output, which is its own while it does.
  private func collect() {
    var collected: [UInt8] = []
    swap(&collected, &output)
    owner?.linkWillSend(self, &collected)
    collected += output
    output = collected
  }

  private func encrypt() throws(ByteTransportEnd) {
    guard !output.isEmpty else { return }
    guard let tls else {
      if outgoing.isEmpty { swap(&output, &outgoing) } else { outgoing += output }
      return output.removeAll(keepingCapacity: true)
    }
    guard tls.state != .handshaking else { return }
    try encrypt(output, with: tls)
    output.removeAll(keepingCapacity: output.capacity <= Self.keptCapacity)
  }

  // MARK: TLS

  /// Begins a handshake; what is written from now on is encrypted.
  func secure(with session: TLSSession) {
    channel.loop.assertCurrent()
    tls = session
    perform { () throws(ByteTransportEnd) in
      do throws(TLSError) { try session.start(outgoing: &outgoing) } catch { throw .failedTLS(error) }
      flushSoon()
    }
  }

  // MARK: Events

  func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    guard isOpen else { return }
    // Without an owner, no object would handle what arrives.
    guard owner != nil else { return end(.ended) }
    switch readiness {
    case .cancelled: end(.ended)
    case .timedOut:
      if now >= writeDeadline { return end(.stalled) }
      if now >= deadline { owner?.linkTimedOut(self) }
      watch()
    case .ready:
      perform { () throws(ByteTransportEnd) in
        if sent < outgoing.count { try flush() }
        if isReading { try receive() }
      }
    }
  }

  /// Does `work`, ends if that says so, and waits for more events.
  private func perform(_ work: () throws(ByteTransportEnd) -> Void) {
    let wasBusy = isBusy
    isBusy = true
    do throws(ByteTransportEnd) {
      try work()
    } catch {
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

  // MARK: The end

  /// Sends what the socket takes at once, and closes the link. The owner is not told.
  func close() {
    channel.loop.assertCurrent()
    owner = nil
    if isOpen { try? flush() }
    end(.ended)
  }

  /// Closes it without sending what waits to be sent. The owner is not told.
  func abort() {
    channel.loop.assertCurrent()
    owner = nil
    (output, outgoing, sent) = ([], [], 0)
    end(.ended)
  }

  /// Closes it and tells the owner why.
  func end(_ end: ByteTransportEnd) {
    channel.loop.assertCurrent()
    guard isOpen else { return }
    isOpen = false
    if outgoing.isEmpty { tls?.close(outgoing: &outgoing) }
    // Sends an alert or close_notify. After half a record it would be garbage, but then the peer reads no further.
    if sent < outgoing.count { _ = try? send(outgoing) }
    channel.close()
    (output, outgoing) = ([], [])
    let owner = owner
    self.owner = nil
    owner?.linkEnded(self, end)
  }
}
