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
