import EventLoop
import HTTPTypes
import TLS

/// Bytes between the socket, TLS and the buffers that the loop lends.
extension Connection {
  // MARK: Borrowing

  /// Takes buffers for what has none of its own.
  func borrowBuffers() {
    if input.capacity == 0 { input = worker.lendBuffer() }
    if output.capacity == 0 { output = worker.lendBuffer() }
    if outgoing.capacity == 0 { outgoing = worker.lendBuffer() }
  }

  /// Gives buffers back before a wait. What must be kept is kept in as much memory as it needs: a peer that sends
  /// little or reads little makes the server hold little.
  func releaseBuffers() {
    if consumed > 0 || input.isEmpty || input.capacity >= worker.limits.receiveBuffer {
      let rest = input.copy(from: consumed)
      worker.takeBack(exchange(&input, rest))
      consumed = 0
    }
    if output.isEmpty { worker.takeBack(exchange(&output, [])) }
    if outgoing.isEmpty { worker.takeBack(exchange(&outgoing, [])) }
  }

  // MARK: Reading

  /// Reads what is there, once.
  func receive() throws(CloseReason) {
    do {
      if awaitsProxyHeader {
        try receiveProxyHeader()
      } else if tls == nil {
        try receivePlaintext()
      } else {
        try receiveRecords()
      }
    } catch let error as TLSError {
      throw .failedTLS(error)
    } catch {
      noticeUnfinishedHandshake()
      throw .gone
    }
  }

  /// Reads bytes as they are.
  func receivePlaintext() throws {
    let room = self.room
    note(try channel.receive(into: &input, atMost: room), of: room)
  }

  /// How much to read: what a lent buffer has left; for bytes kept over a wait as much as there are already, so that
  /// the work stays linear.
  private var room: Int {
    let left = input.capacity - input.count
    return left >= Self.scantRoom ? left : min(max(Self.scantRoom, input.count), worker.limits.receiveBuffer)
  }

  private static let scantRoom = 512

  private func receiveRecords() throws {
    var ciphertext = worker.lendBuffer()
    defer { worker.takeBack(ciphertext) }
    let limit = worker.limits.receiveBuffer
    note(try channel.receive(into: &ciphertext, atMost: limit), of: limit)
    try decrypt(ciphertext)
  }

  /// Takes bytes of TLS.
  func decrypt(_ ciphertext: [UInt8]) throws {
    guard let tls else { return }
    switch try tls.receive(ciphertext.span, plaintext: &input, outgoing: &outgoing) {
    case .handshaking: break
    case .established: finishHandshake()
    case .closedByPeer: peerHasFinished = true
    }
  }

  /// All that comes before the first request is there.
  func finishHandshake() {
    guard handshakeDeadline != nil else { return }
    handshakeDeadline = nil
    clientCertificate = tls?.clientCertificate
    // The client is about to send a request. A server that shuts down waits for it as for the rest of a head.
    if worker.stage == .closing { headDeadline = now.advanced(by: worker.limits.headerSection) }
  }

  private func note(_ reading: Channel.Reading, of limit: Int) {
    switch reading {
    case .bytes(let count): readWouldBlock = count < limit
    case .wouldBlock: readWouldBlock = true
    case .end: peerHasFinished = true
    }
  }

  /// Waits for more input, in the middle of a request, and writes first what the peer may be waiting for.
  func receiveMore(until deadline: Deadline) async throws(CloseReason) {
    guard !peerHasFinished else { throw .gone }
    if readWouldBlock {
      try await flush()
      releaseBuffers()
      guard account() else { throw .refused(.overMemory) }
      switch await channel.readable(until: deadline) {
      case .ready: borrowBuffers()
      case .timedOut: throw .refused(.bodyTimeout)
      case .cancelled: throw .refused(.draining)
      }
    } else {
      // As much as is sent is there at once: without a wait, nothing else makes room for what comes.
      input.removeSubrange(..<consumed)
      consumed = 0
    }
    try receive()
  }

  // MARK: Writing

  /// The response with Strict-Transport-Security, if the connection is over TLS: browsers ignore the field elsewhere, and
  /// a server must not send it there (RFC 6797 §7.2).
  func secured(_ response: Response) -> Response {
    guard tls != nil, let value = worker.strictTransportSecurity else { return response }
    var response = response
    response.fields[.strictTransportSecurity] = value
    return response
  }

  /// Writes the responses that there are.
  func flush() async throws(CloseReason) {
    if try !flushAtOnce() { try await transmit() }
  }

  /// Writes of the responses what the socket takes at once; false if something is left.
  func flushAtOnce() throws(CloseReason) -> Bool {
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
    worker.takeBack(exchange(&outgoing, rest))
    sent = 0
  }

  /// Writes what there is, however long the peer takes, as long as it takes some.
  func transmit() async throws(CloseReason) {
    while try !transmitAtOnce() {
      releaseBuffers()
      guard account() else { throw .brokenOff }
      let deadline = now.advanced(by: worker.limits.writeProgress)
      guard await channel.writable(until: deadline) == .ready else { throw .brokenOff }
    }
    borrowBuffers()
  }

  /// Ends a connection whose TLS session failed: with the alert, or in plain words for a client that spoke plain HTTP.
  func endTLS(_ error: TLSError) {
    worker.observer.noticed(.tlsFailed(peer, error))
    tls = nil
    // Responses that were not encrypted yet cannot be any more, and must not go out in clear.
    output.removeAll(keepingCapacity: true)
    dropBody()
    if error.cause == .plaintextHTTP {
      refuse(.plaintextOnTLS)
      swap(&output, &outgoing)
    }
    if sendAtOnce() { linger() } else { close() }
  }

  /// Ends a connection whose TLS handshake takes too long. Sends what the socket takes of an alert at once.
  func expireHandshake() {
    if let error = tls?.expireHandshake(outgoing: &outgoing) {
      worker.observer.noticed(.tlsFailed(peer, error))
      tls = nil
      _ = sendAtOnce()
    }
    close()
  }

  /// Tells the observer if the peer has gone in the middle of a handshake.
  func noticeUnfinishedHandshake() {
    if let error = tls?.unfinishedHandshake { worker.observer.noticed(.tlsFailed(peer, error)) }
  }

  /// Sends what the socket takes of a close_notify at once, if there is a TLS session that has not sent one.
  func closeTLS() {
    // Behind half a record it would be garbage.
    guard let tls, !isPending else { return }
    tls.close(outgoing: &outgoing)
    _ = sendAtOnce()
  }

  /// Sends what the socket takes at once of `outgoing`, and forgets the rest. False if there was nothing.
  private func sendAtOnce() -> Bool {
    let bytes = outgoing
    outgoing = []
    guard !bytes.isEmpty else { return false }
    _ = try? channel.send(bytes.span.extracting(sent...))
    sent = 0
    return true
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
