import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes
import Memory
import TLS

/// What a connection makes the server hold while it waits, charged to the budget of its address.
///
/// Bytes in arrays are counted. The rest is estimated from above, so that what is really held stays below the budget.
extension Connection {
  enum Cost {
    /// The connection's objects (1 kB), and its file, socket and poller entry in the kernel (3 kB).
    static let connection = 4_096
    /// OpenSSL's session during the handshake, with its buffers, transcript and keys.
    static let handshake = 45_056
    /// OpenSSL's session afterwards: it keeps no buffers between records.
    static let session = 12_288
    /// Ciphertext of a shared body: two records, in a buffer that has doubled.
    static let encrypted = 66_000
    /// The objects of a request, its bytes aside.
    static let request = 1_024
    /// The task of a request that waits for its response, what the task has on its stack, and the upstream request.
    static let work = 20_480
    /// nghttp2's session with two header tables of 4 KiB, and its buffer of a frame.
    static let http2 = 32_768
    /// A stream: nghttp2's state and ours.
    static let stream = 2_048
    /// What the kernel takes at most for a peer that does not read: twice `Listener.sendBuffer`.
    static let sendBuffer = 131_072
    /// What it takes at most of bytes that the server does not read: twice `Listener.receiveBuffer`.
    static let receiveBuffer = 65_536

    /// A connection that has just been accepted.
    static func new(isSecure: Bool) -> Int { isSecure ? connection + handshake : connection }
  }

  /// A response of at least this size is sent from the handler's own array, which others may share, and not copied.
  static let leastShared = 16_384

  /// Charges what is held. False if the budget refuses the growth: the connection has to end.
  func account() -> Bool {
    channel.loop.assertCurrent()
    hold.move(to: exchange.request.map { $0.holder } ?? peer.holder)
    // What was granted for a response stays until it is out: a reader who makes progress must not lose it to newer ones.
    let isGranted = hold.resize(
      to: transport.isPending ? max(hold.bytes, heldBytes) : heldBytes, for: purpose)
    if !isGranted { worker.observer.noticed(.memoryRefused(peer.address)) }
    return isGranted
  }

  private var purpose: MemoryBudget.Purpose {
    if transport.isPending || state.isUnread { return .response }
    if state.isWorking { return .waiting }
    return exchange.request == nil && transport.input.isEmpty && http2 == nil ? .connection : .request
  }

  /// What it makes the server hold at present.
  var heldBytes: Int {
    var bytes = Cost.connection + transport.heldBytes
    if transport.tls != nil { bytes += state.isHandshaking ? Cost.handshake : Cost.session }
    if let request = exchange.request { bytes += Cost.request + request.heldBytes }
    if let content = exchange.content { bytes += content.received.capacity }
    if let http2 { bytes += Cost.http2 + http2.heldBytes }
    if state.isWorking { bytes += Cost.work }
    if transport.isPending || state.isUnread { bytes += Cost.sendBuffer }
    // While the server writes or works, the peer may send bytes that stay unread.
    if transport.isPending || state.watchesHangup { bytes += Cost.receiveBuffer }
    return bytes
  }

  /// The response, or a refusal if there is no memory to hold it for a slow reader.
  func affordable(_ response: Response, for request: Request) -> Response {
    channel.loop.assertCurrent()
    guard response.body.count >= Self.leastShared, request.method != .head, response.hasContent else {
      return response
    }
    guard worker.memory.charge(shared: response.body, to: peer.holder) else {
      worker.observer.noticed(.memoryRefused(peer.address))
      return worker.router.finished(ErrorResponse.overMemory.response(id: request.id), for: request)
    }
    transport.body = response.body
    return response
  }

  /// Waits until the peer has acknowledged what was sent, if much is outstanding. The kernel keeps those bytes for a
  /// closed connection as well, and no limit and no budget counts them there. Without this wait, a peer that closes its
  /// side and does not read could make the kernel keep them for connection after connection.
  func waitForReader() async {
    channel.loop.assertCurrent()
    guard channel.unacknowledged > Self.freeOfCharge else { return }
    transport.releaseBuffers()
    let end = state.unreadBegan(at: now)
    let isGranted = account()
    while isGranted, channel.unacknowledged > 0, now < end {
      guard await channel.pause(until: now.advanced(by: Self.readerInterval)) == .timedOut else { break }
    }
    if channel.unacknowledged > Self.freeOfCharge { channel.resetOnClose() }
  }

  /// What a closed connection may leave with the kernel: what is in flight to an honest client.
  static let freeOfCharge = 16_384

  private static let readerInterval = Duration.milliseconds(250)

  /// Ends a connection for which there is no memory: sends what the socket takes of a refusal at once, and closes. A
  /// task for the rest would take more memory than there is.
  func turnAway() {
    channel.loop.assertCurrent()
    if state.takesRefusal, !transport.isPending {
      transport.borrowBuffers()
      if case .refused(let refusal) = state.reason(for: .overMemory) { refuse(refusal) }
      _ = try? transport.flushAtOnce()
      transport.announceEndOfTLS()
      channel.shutdownWriting()
      // Unread bytes would turn the close into a reset, which destroys the response in the peer's hands.
      _ = transport.discard()
    }
    if transport.isPending { channel.resetOnClose() }
    close()
  }
}

extension Response {
  /// Whether its status allows for content (RFC 9110 §6.4.1).
  var hasContent: Bool { status.code != 204 && status.code != 304 }
}

/// The spare buffers of a loop. Connections borrow them while they process bytes, and rest without any.
final class BufferPool {
  /// Bytes read in one go, and the size of a buffer.
  let size: Int
  /// A buffer that has grown beyond this is freed, so that a burst does not stay in memory.
  private let largest: Int
  private var buffers: [[UInt8]] = []

  /// More than a loop uses at once: connections that wait hold buffers of their own size.
  static let spares = 8

  init(_ limits: ServerLimits) {
    size = limits.receiveBuffer
    largest = limits.sendBuffer * 2
  }

  /// An empty buffer with room for one read; to be given back.
  func lend() -> [UInt8] {
    if let buffer = buffers.popLast() { return buffer }
    var buffer: [UInt8] = []
    buffer.reserveCapacity(size)
    return buffer
  }

  /// Takes a buffer back.
  func takeBack(_ buffer: consuming [UInt8]) {
    guard (size...largest).contains(buffer.capacity), buffers.count < Self.spares else { return }
    buffer.removeAll(keepingCapacity: true)
    buffers.append(buffer)
  }
}
