import EventLoop
import Memory
import TLS

/// The byte stream of a connection between the socket, TLS and the buffers that the loop lends, without knowledge of HTTP.
/// Nothing here waits: it reads the available bytes once, and writes as much as the socket accepts at once.
final class Transport {
  let channel: Channel
  private let buffers: BufferPool
  private let memory: MemoryBudget
  var tls: TLSSession?
  /// Received plaintext, or what follows a PROXY header before TLS. Its first `consumed` bytes have been processed.
  var input: [UInt8] = []
  var consumed = 0
  var output: [UInt8] = []
  /// A handler's own array, charged as shared, and sent after `outgoing` without a copy: `bodySent` bytes of it so far.
  var body: [UInt8] = []
  private var bodySent = 0
  /// Bytes for the socket, which has accepted the first `sent` of them.
  private(set) var outgoing: [UInt8] = []
  private var sent = 0
  /// The number of bytes that the socket has accepted since the connection began, without a last alert.
  private(set) var accepted = 0

  private(set) var readWouldBlock = false
  private(set) var peerHasFinished = false

  init(_ channel: Channel, buffers: BufferPool, memory: MemoryBudget) {
    (self.channel, self.buffers, self.memory) = (channel, buffers, memory)
  }

  var unread: Int { input.count - consumed }
  /// Whether bytes wait for the socket to accept them.
  var isPending: Bool { !outgoing.isEmpty || !body.isEmpty }
  /// Whether there are responses to be sent, and not only messages of TLS.
  var hasResponse: Bool { !output.isEmpty || !body.isEmpty }

  /// The memory in bytes, without that of OpenSSL's session.
  var heldBytes: Int {
    let ciphertext = tls == nil || body.isEmpty ? 0 : Connection.Cost.encrypted
    return input.capacity + output.capacity + max(outgoing.capacity, ciphertext)
  }

  /// Borrows a buffer for each array without one. Without TLS, the socket gets the bytes of `output`.
  func borrowBuffers() {
    if input.capacity == 0 { input = buffers.lend() }
    if output.capacity == 0 { output = buffers.lend() }
    if tls != nil, outgoing.capacity == 0 { outgoing = buffers.lend() }
  }

  /// Returns the buffer of input that has been processed, before the responses wait for those of other connections.
  func releaseInput() {
    guard consumed == input.count else { return }
    buffers.takeBack(&input)
    consumed = 0
  }

  /// Returns buffers before a wait. Bytes to keep are copied into memory of their size: few bytes hold little memory.
  func releaseBuffers() {
    if consumed > 0 || input.isEmpty || input.capacity >= buffers.size {
      let rest = input.copy(from: consumed)
      buffers.takeBack(&input, leaving: rest)
      consumed = 0
    }
    if output.isEmpty { buffers.takeBack(&output) }
    if outgoing.isEmpty { buffers.takeBack(&outgoing) }
  }

  func dropBody() {
    guard !body.isEmpty else { return }
    memory.release(shared: body)
    body = []
    bodySent = 0
  }

  /// Reads the available bytes, once. Returns the phase of the TLS session if it received bytes.
  func receive() throws -> TLSPhase? {
    guard let tls else {
      try receivePlaintext()
      return nil
    }
    // The first bytes of the session may have come with a PROXY header.
    if tls.phase == .handshaking, unread > 0 {
      let ciphertext = Array(input[consumed...])
      input.removeAll(keepingCapacity: true)
      consumed = 0
      return try decrypt(ciphertext, with: tls)
    }
    var ciphertext = buffers.lend()
    defer { buffers.takeBack(&ciphertext) }
    note(try channel.receive(into: &ciphertext, atMost: buffers.size), of: buffers.size)
    return try decrypt(ciphertext, with: tls)
  }

  func receivePlaintext() throws {
    let room = self.room
    note(try channel.receive(into: &input, atMost: room), of: room)
  }

  /// The bytes to read: the free capacity of a lent buffer, or as many as were kept, for linear work.
  private var room: Int {
    let left = input.capacity - input.count
    return left >= Self.scantRoom ? left : min(max(Self.scantRoom, input.count), buffers.size)
  }

  private static let scantRoom = 512

  private func decrypt(_ ciphertext: [UInt8], with tls: TLSSession) throws -> TLSPhase? {
    let progress = try tls.receive(ciphertext.span, plaintext: &input, outgoing: &outgoing)
    if progress == .closedByPeer { peerHasFinished = true }
    return progress
  }

  private func note(_ reading: Channel.Reading, of limit: Int) {
    switch reading {
    case .bytes(let count): readWouldBlock = count < limit
    case .wouldBlock: readWouldBlock = true
    case .end: peerHasFinished = true
    }
  }

  /// Moves the unread input to the front. Only a wait makes room otherwise.
  func compactInput() {
    input.removeSubrange(..<consumed)
    consumed = 0
  }

  func dropInput() { consumed = input.count }

  /// Reads and discards the available bytes, once. Returns their number, or nil if the peer sends no more.
  func discard() -> Int? {
    var scratch = buffers.lend()
    defer { buffers.takeBack(&scratch) }
    switch try? channel.receive(into: &scratch, atMost: buffers.size) {
    case .bytes(let count): return count
    case .wouldBlock: return 0
    case .end, nil: return nil
    }
  }
}

extension Transport {
  /// Writes what the socket accepts at once. Returns false if bytes are left. The last end TLS if the peer has finished.
  func flushAtOnce(isLast: Bool = false) throws(CloseReason) -> Bool {
    if let tls {
      if !output.isEmpty {
        try encrypt(output, 0..<output.count, with: tls)
        output.removeAll(keepingCapacity: true)
      }
      if isLast, peerHasFinished, body.isEmpty { announceEndOfTLS() }
    } else if outgoing.isEmpty {
      swap(&output, &outgoing)
      guard try transmitAtOnce() else { return false }
      // The buffer is for the next responses.
      swap(&output, &outgoing)
      return true
    } else if !output.isEmpty {
      outgoing += output
      output.removeAll(keepingCapacity: true)
    }
    return try transmitAtOnce()
  }

  private func encrypt(_ plaintext: [UInt8], _ range: Range<Int>, with tls: TLSSession) throws(CloseReason) {
    do { try tls.send(plaintext.span.extracting(range), outgoing: &outgoing) } catch { throw .failedTLS(error) }
  }

  /// As `flushAtOnce`, without `output`. TLS encrypts only as much of `body` as the socket is about to accept.
  func transmitAtOnce() throws(CloseReason) -> Bool {
    while isPending {
      if let tls, outgoing.isEmpty {
        let end = min(bodySent + Self.encryptedAtOnce, body.count)
        try encrypt(body, bodySent..<end, with: tls)
        bodySent = end
        if bodySent == body.count { dropBody() }
      }
      // With TLS, only ciphertext goes to the socket.
      noteSent(try send(outgoing, tls == nil ? body : []))
      guard outgoing.isEmpty, tls != nil || body.isEmpty else {
        keepRest()
        return false
      }
    }
    return true
  }

  /// The plaintext bytes that are encrypted at once, two records, which the server holds beside the body.
  private static let encryptedAtOnce = 32_768

  private func send(_ head: [UInt8], _ body: [UInt8]) throws(CloseReason) -> Int {
    do {
      guard !body.isEmpty else { return try channel.send(head.span.extracting(sent...)) }
      return try channel.send(head.span.extracting(sent...), body.span.extracting(bodySent...))
    } catch { throw .gone }
  }

  private func noteSent(_ count: Int) {
    let ofOutgoing = min(count, outgoing.count - sent)
    accepted += count
    sent += ofOutgoing
    if sent == outgoing.count {
      outgoing.removeAll(keepingCapacity: true)
      sent = 0
    }
    guard tls == nil, !body.isEmpty else { return }
    bodySent += count - ofOutgoing
    if bodySent == body.count { dropBody() }
  }

  /// Keeps the rest of `outgoing` in memory of its size, but does not copy a long response at each step of a slow reader.
  private func keepRest() {
    guard !outgoing.isEmpty, sent > outgoing.count / 2 || outgoing.capacity > outgoing.count * 2 else { return }
    let rest = outgoing.copy(from: sent)
    buffers.takeBack(&outgoing, leaving: rest)
    sent = 0
  }

  /// Drops the TLS session after a failure. Responses that were not encrypted must not be sent as plaintext.
  func abandonTLS() {
    tls = nil
    output.removeAll(keepingCapacity: true)
    dropBody()
  }

  /// Replaces the remaining TLS bytes with a plaintext response.
  func putInClear() { swap(&output, &outgoing) }

  func announceEndOfTLS() { tls?.close(outgoing: &outgoing) }

  /// Ends a handshake that takes too long, and sends as much of an alert as the socket accepts at once.
  func expireHandshake() -> TLSError? {
    guard let error = tls?.expireHandshake(outgoing: &outgoing) else { return nil }
    tls = nil
    _ = sendAtOnce()
    return error
  }

  /// Sends as much of `outgoing` as the socket accepts at once, and drops the rest. Returns false if it was empty.
  func sendAtOnce(closes: Bool = false) -> Bool {
    let bytes = outgoing
    outgoing = []
    guard !bytes.isEmpty else { return false }
    _ = try? channel.send(bytes.span.extracting(sent...), closes: closes)
    sent = 0
    return true
  }

  /// Closes the socket, with a close_notify if it can be sent at once.
  func close() {
    // After half a record, a close_notify would be garbage.
    if let tls, !isPending {
      tls.close(outgoing: &outgoing)
      _ = sendAtOnce(closes: true)
    }
    dropBody()
    // This may report the end of a wait to the connection, which already counts as closed.
    channel.close()
    dropInput()
    outgoing = []
    sent = 0
    releaseBuffers()
    tls = nil
  }
}

extension [UInt8] {
  /// Returns the bytes from `start`, in separate memory. `Array(self[0...])` would share that of the whole buffer.
  fileprivate func copy(from start: Int) -> [UInt8] {
    guard start < count else { return [] }
    var copy: [UInt8] = []
    copy.reserveCapacity(count - start)
    copy.append(contentsOf: self[start...])
    return copy
  }
}

/// The spare buffers of a loop. Connections borrow them while they process bytes, and return them before a wait.
final class BufferPool {
  /// The size of a buffer, and so of a read, in bytes.
  let size: Int
  /// The largest size that is kept, so that a burst does not stay in memory.
  private let largest: Int
  private var buffers: [[UInt8]] = []

  /// As many as a loop uses at once: two for each connection with unsent responses over TLS, four for the one it serves.
  static let spares = Worker.mostUnsent * 2 + 4

  init(_ limits: ServerLimits) {
    size = limits.receiveBuffer
    largest = limits.sendBuffer * 2
  }

  /// Returns an empty buffer, which the caller must return.
  func lend() -> [UInt8] {
    if let buffer = buffers.popLast() { return buffer }
    var buffer: [UInt8] = []
    buffer.reserveCapacity(size)
    return buffer
  }

  func takeBack(_ buffer: inout [UInt8], leaving rest: consuming [UInt8] = []) {
    var returned = consume rest
    swap(&buffer, &returned)
    guard (size...largest).contains(returned.capacity), buffers.count < Self.spares else { return }
    returned.removeAll(keepingCapacity: true)
    buffers.append(returned)
  }
}
