import EventLoop
import Memory
import TLS

/// The bytes of a connection between the socket, TLS and the buffers that the loop lends. It knows no HTTP.
///
/// Nothing here waits. It reads what is there once, and writes what the socket takes at once.
final class Transport {
  // Confined to the channel's loop, like the connection that owns it.

  let channel: Channel
  private let buffers: BufferPool
  private let memory: MemoryBudget
  /// Nil for plain HTTP.
  var tls: TLSSession?

  /// Received plaintext, of which the first `consumed` bytes are dealt with.
  var input: [UInt8] = []
  var consumed = 0
  /// Responses in plaintext that have not been written.
  var output: [UInt8] = []
  /// A handler's own array, sent behind `outgoing` and not copied; the socket or TLS has taken the first `bodySent` bytes.
  /// Charged as shared while it is here.
  var body: [UInt8] = []
  private var bodySent = 0
  /// Bytes on their way to the socket, of which it has taken the first `sent`.
  private(set) var outgoing: [UInt8] = []
  private var sent = 0

  /// The socket has nothing more at present.
  private(set) var readWouldBlock = false
  /// The peer has said that it sends no more.
  private(set) var peerHasFinished = false

  init(_ channel: Channel, buffers: BufferPool, memory: MemoryBudget) {
    self.channel = channel
    self.buffers = buffers
    self.memory = memory
  }

  /// Bytes of input that are not dealt with.
  var unread: Int { input.count - consumed }

  /// Whether something waits for the socket to take it.
  var isPending: Bool { !outgoing.isEmpty || !body.isEmpty }

  /// The memory that it holds at present, but not that of OpenSSL's session.
  var heldBytes: Int {
    let ciphertext = tls == nil || body.isEmpty ? 0 : Connection.Cost.encrypted
    return input.capacity + output.capacity + max(outgoing.capacity, ciphertext) + (tls?.heldBytes ?? 0)
  }

  // MARK: Borrowing

  /// Takes buffers for what has none of its own.
  func borrowBuffers() {
    channel.loop.assertCurrent()
    if input.capacity == 0 { input = buffers.lend() }
    if output.capacity == 0 { output = buffers.lend() }
    if outgoing.capacity == 0 { outgoing = buffers.lend() }
  }

  /// Gives buffers back before a wait. What must be kept is kept in as much memory as it needs: a peer that sends
  /// little or reads little makes the server hold little.
  func releaseBuffers() {
    channel.loop.assertCurrent()
    if consumed > 0 || input.isEmpty || input.capacity >= buffers.size {
      let rest = input.copy(from: consumed)
      buffers.takeBack(exchange(&input, rest))
      consumed = 0
    }
    if output.isEmpty { buffers.takeBack(exchange(&output, [])) }
    if outgoing.isEmpty { buffers.takeBack(exchange(&outgoing, [])) }
  }

  /// Lets go of a shared body, sent or not.
  func dropBody() {
    channel.loop.assertCurrent()
    guard !body.isEmpty else { return }
    memory.release(shared: body)
    body = []
    bodySent = 0
  }

  // MARK: Reading

  /// Reads what is there, once. Returns the state of the TLS session if bytes of it have come.
  func receive() throws -> TLSSession.State? {
    channel.loop.assertCurrent()
    guard tls != nil else {
      try receivePlaintext()
      return nil
    }
    var ciphertext = buffers.lend()
    defer { buffers.takeBack(ciphertext) }
    note(try channel.receive(into: &ciphertext, atMost: buffers.size), of: buffers.size)
    return try decrypt(ciphertext)
  }

  /// Reads bytes as they are.
  func receivePlaintext() throws {
    channel.loop.assertCurrent()
    let room = self.room
    note(try channel.receive(into: &input, atMost: room), of: room)
  }

  /// How much to read: what a lent buffer has left; for bytes kept over a wait as much as there are already, so that
  /// the work stays linear.
  private var room: Int {
    let left = input.capacity - input.count
    return left >= Self.scantRoom ? left : min(max(Self.scantRoom, input.count), buffers.size)
  }

  private static let scantRoom = 512

  /// Takes the input behind a PROXY header of `length` bytes for what it is: bytes of TLS if there is a session.
  func skipProxyHeader(length: Int) throws -> TLSSession.State? {
    channel.loop.assertCurrent()
    consumed = length
    guard tls != nil else { return nil }
    let ciphertext = Array(input[length...])
    input.removeAll(keepingCapacity: true)
    consumed = 0
    return ciphertext.isEmpty ? nil : try decrypt(ciphertext)
  }

  private func decrypt(_ ciphertext: [UInt8]) throws -> TLSSession.State? {
    guard let tls else { return nil }
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

  /// Moves the unread input to the front: without a wait, nothing else makes room for what comes.
  func compactInput() {
    channel.loop.assertCurrent()
    input.removeSubrange(..<consumed)
    consumed = 0
  }

  /// Forgets the input: nothing more is read of it.
  func dropInput() {
    channel.loop.assertCurrent()
    consumed = input.count
  }

  /// Reads what is there, once, and discards it. Returns how many bytes that was; nil if the peer sends no more.
  func discard() -> Int? {
    channel.loop.assertCurrent()
    var scratch = buffers.lend()
    defer { buffers.takeBack(scratch) }
    switch try? channel.receive(into: &scratch, atMost: buffers.size) {
    case .bytes(let count): return count
    case .wouldBlock: return 0
    case .end, nil: return nil
    }
  }
}

// MARK: Writing

extension Transport {
  /// Writes of the responses what the socket takes at once; false if something is left.
  func flushAtOnce() throws(CloseReason) -> Bool {
    channel.loop.assertCurrent()
    if let tls {
      if !output.isEmpty {
        try encrypt(output, 0..<output.count, with: tls)
        output.removeAll(keepingCapacity: true)
      }
    } else if outgoing.isEmpty {
      swap(&output, &outgoing)
    } else if !output.isEmpty {
      outgoing += output
      output.removeAll(keepingCapacity: true)
    }
    return try transmitAtOnce()
  }

  private func encrypt(_ plaintext: [UInt8], _ range: Range<Int>, with tls: TLSSession) throws(CloseReason) {
    do { try tls.send(plaintext.span.extracting(range), outgoing: &outgoing) } catch { throw .failedTLS(error) }
  }

  /// Sends of `outgoing` and `body` what the socket takes at once; false if that was not all. The rest of `outgoing` is
  /// kept in as much memory as it needs; of `body` TLS encrypts only as much as the socket is about to take.
  func transmitAtOnce() throws(CloseReason) -> Bool {
    channel.loop.assertCurrent()
    while isPending {
      if let tls, outgoing.isEmpty {
        let end = min(bodySent + Self.encryptedAtOnce, body.count)
        try encrypt(body, bodySent..<end, with: tls)
        bodySent = end
        if bodySent == body.count { dropBody() }
      }
      // Of TLS only ciphertext goes to the socket.
      noteSent(try send(outgoing, tls == nil ? body : []))
      guard outgoing.isEmpty, tls != nil || body.isEmpty else {
        keepRest()
        return false
      }
    }
    return true
  }

  /// Plaintext that is encrypted in one go, two records: what a reader who is slow makes the server hold besides the
  /// body itself.
  private static let encryptedAtOnce = 32_768

  private func send(_ head: [UInt8], _ body: [UInt8]) throws(CloseReason) -> Int {
    do {
      guard !body.isEmpty else { return try channel.send(head.span.extracting(sent...)) }
      return try channel.send(head.span.extracting(sent...), body.span.extracting(bodySent...))
    } catch { throw .gone }
  }

  private func noteSent(_ count: Int) {
    let ofOutgoing = min(count, outgoing.count - sent)
    sent += ofOutgoing
    if sent == outgoing.count {
      outgoing.removeAll(keepingCapacity: true)
      sent = 0
    }
    guard tls == nil, !body.isEmpty else { return }
    bodySent += count - ofOutgoing
    if bodySent == body.count { dropBody() }
  }

  private func keepRest() {
    // Not at each step, or a long response to a slow reader would be copied over and over.
    guard !outgoing.isEmpty, sent > outgoing.count / 2 || outgoing.capacity > outgoing.count * 2 else { return }
    let rest = outgoing.copy(from: sent)
    buffers.takeBack(exchange(&outgoing, rest))
    sent = 0
  }

  /// Drops the TLS session after a failure. Responses that were not encrypted must not go out in clear.
  func abandonTLS() {
    channel.loop.assertCurrent()
    tls = nil
    output.removeAll(keepingCapacity: true)
    dropBody()
  }

  /// Puts a response in clear in the place of what is left of TLS.
  func putInClear() {
    channel.loop.assertCurrent()
    swap(&output, &outgoing)
  }

  /// Puts the end of the TLS session behind what is to be sent.
  func announceEndOfTLS() {
    channel.loop.assertCurrent()
    tls?.close(outgoing: &outgoing)
  }

  /// Ends a handshake that takes too long, and sends what the socket takes of an alert at once.
  func expireHandshake() -> TLSError? {
    channel.loop.assertCurrent()
    guard let error = tls?.expireHandshake(outgoing: &outgoing) else { return nil }
    tls = nil
    _ = sendAtOnce()
    return error
  }

  /// Sends what the socket takes at once of `outgoing`, and forgets the rest. False if there was nothing.
  func sendAtOnce() -> Bool {
    channel.loop.assertCurrent()
    let bytes = outgoing
    outgoing = []
    guard !bytes.isEmpty else { return false }
    _ = try? channel.send(bytes.span.extracting(sent...))
    sent = 0
    return true
  }

  /// Closes the socket, with a close_notify if that can go out at once.
  func close() {
    channel.loop.assertCurrent()
    // Behind half a record it would be garbage.
    if let tls, !isPending {
      tls.close(outgoing: &outgoing)
      _ = sendAtOnce()
    }
    dropBody()
    // This may report the end of a wait to the connection, which is closed for itself by now.
    channel.close()
    dropInput()
    outgoing = []
    sent = 0
    releaseBuffers()
    tls = nil
  }
}

extension [UInt8] {
  /// What there is from `start` on, in memory of its own. `Array(self[0...])` would share that of the whole buffer.
  fileprivate func copy(from start: Int) -> [UInt8] {
    guard start < count else { return [] }
    var copy: [UInt8] = []
    copy.reserveCapacity(count - start)
    copy.append(contentsOf: self[start...])
    return copy
  }
}

/// Puts `new` in the place of `old` and returns that.
private func exchange(_ old: inout [UInt8], _ new: consuming [UInt8]) -> [UInt8] {
  var value = consume new
  swap(&old, &value)
  return value
}
