/// The spare buffers of a loop. Connections borrow them while they process bytes, and return them before a wait.
final class BufferPool {
  /// The maximum number of bytes per read, and the size of a buffer.
  let size: Int
  /// The maximum size of a kept buffer. A larger buffer is freed, so that a burst does not stay in memory.
  private let largest: Int
  private var buffers: [[UInt8]] = []

  /// The maximum number of spare buffers, as many as a loop uses at once: two for each connection with unsent responses
  /// over TLS, and four for the one that it serves. Waiting connections hold buffers of their own size.
  static let spares = Worker.mostUnsent * 2 + 4

  init(_ limits: ServerLimits) {
    size = limits.receiveBuffer
    largest = limits.sendBuffer * 2
  }

  /// Returns an empty buffer with room for one read. The caller must return it.
  func lend() -> [UInt8] {
    if let buffer = buffers.popLast() { return buffer }
    var buffer: [UInt8] = []
    buffer.reserveCapacity(size)
    return buffer
  }

  /// Accepts a returned buffer.
  func takeBack(_ buffer: consuming [UInt8]) {
    guard (size...largest).contains(buffer.capacity), buffers.count < Self.spares else { return }
    buffer.removeAll(keepingCapacity: true)
    buffers.append(buffer)
  }
}
