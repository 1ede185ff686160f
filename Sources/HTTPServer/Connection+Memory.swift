import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import Memory
import TLS

/// The memory that a connection makes the server hold while it waits, charged to its address. What peers choose is
/// counted: bytes in arrays, and the sessions of OpenSSL and nghttp2. The rest is estimated from above.
extension Connection {
  enum Cost {
    /// The connection's objects (1 kB), and its file, socket and poller entry in the kernel (3 kB).
    static let connection = 4_096
    /// The room that a handshake needs to begin: about what OpenSSL holds while it waits for an honest client.
    static let handshake = 45_056
    /// The ciphertext of a shared body: two records, in a buffer that has doubled.
    static let encrypted = 66_000
    /// The objects of a request, without its bytes.
    static let request = 1_024
    /// The work of a request that waits, and its upstream request: 7 kB measured with a task and its frames, else 3 kB.
    static let work = 12_288
    /// The objects of an HTTP/2 session, without what the session counts.
    static let http2 = 2_048
    /// The state of a stream in this server. The session counts nghttp2's.
    static let stream = 1_024
    /// The step in which sessions are charged: each request changes them a little, and each change takes a lock.
    static let step = 1_024
    /// The kernel's maximum for a peer that does not read: twice `Listener.sendBuffer`.
    static let sendBuffer = 131_072
    /// The kernel's maximum of bytes that the server does not read: twice `Listener.receiveBuffer`.
    static let receiveBuffer = 65_536
  }

  /// Charges the held memory. Returns false if the connection must end, because the budget refuses the growth.
  func account() -> Bool {
    hold.move(to: request.map { $0.client.holder } ?? peer.client.holder)
    // Memory stays granted until the response is sent: a reader who makes progress does not lose it to newer ones.
    let isGranted = hold.resize(to: transport.isPending ? max(hold.bytes, heldBytes) : heldBytes, for: purpose)
    if !isGranted { worker.observer.noticed(.memoryRefused(peer.address)) }
    return isGranted
  }

  private var purpose: MemoryBudget.Purpose {
    if transport.isPending || state.isUnread { return .response }
    if state.isWorking { return .waiting }
    return request == nil && transport.input.isEmpty && http2 == nil ? .connection : .request
  }

  var heldBytes: Int {
    var bytes = Cost.connection + transport.heldBytes + sessionBytes
    if let certificate = peer.certificate { bytes += certificate.heldBytes }
    if let request { bytes += Cost.request + request.heldBytes }
    if let refused { bytes += refused.heldBytes }
    if let content { bytes += content.received.capacity }
    if let http2 { bytes += Cost.http2 + http2.heldBytes }
    if state.isWorking { bytes += Cost.work }
    if transport.isPending || state.isUnread { bytes += Cost.sendBuffer }
    // While the server writes or works, the peer may send bytes that stay unread.
    if transport.isPending || state.watchesHangup { bytes += Cost.receiveBuffer }
    return bytes
  }

  private var sessionBytes: Int {
    guard transport.tls != nil || http2 != nil else { return 0 }
    let bytes = (transport.tls?.memoryBytes ?? 0) + (http2?.session.heldBytes ?? 0)
    return (bytes + Cost.step - 1) / Cost.step * Cost.step
  }

  /// Waits until the peer has acknowledged the sent bytes, if many are outstanding. The kernel keeps them even after the
  /// close, uncounted, so a peer that does not read could pile them up with connection after connection.
  func waitForReader() async {
    guard channel.unacknowledged > Self.freeOfCharge else { return }
    transport.releaseBuffers()
    let end = state.unreadBegan(at: now)
    let isGranted = account()
    while isGranted, channel.unacknowledged > 0, now < end {
      guard await channel.wait(for: [], until: now.advanced(by: Self.readerInterval)) == .timedOut else { break }
    }
    if channel.unacknowledged > Self.freeOfCharge { channel.resetOnClose() }
  }

  /// The bytes that a closed connection may leave in the kernel: those in flight to an honest client.
  static let freeOfCharge = 16_384

  private static let readerInterval = Duration.milliseconds(250)

  /// Ends a connection without enough memory, after as much of a refusal as can be sent without the memory of a task.
  func reject() {
    if state.takesRefusal, !transport.isPending {
      transport.borrowBuffers()
      if case .refused(let refusal) = state.reason(for: .overMemory) { refuse(refusal) }
      _ = try? transport.flushAtOnce()
      transport.announceEndOfTLS()
      channel.shutdownWriting()
      // Unread bytes would turn the close into a reset, which makes the peer lose the response.
      _ = transport.discard()
    }
    if transport.isPending { channel.resetOnClose() }
    close()
  }
}
