import CZlib

/// The compression of a content with gzip (RFC 1952), a part at a time, so that a long content keeps no event loop busy.
///
/// Not for concurrent use.
@safe final class GradualCompression {
  private let input: [UInt8]
  private var position = 0
  private var output: [UInt8] = []
  // On the heap, because zlib's state points back to the stream.
  private let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
  private let isUsable: Bool

  /// The content of a part: 64 KiB, about a millisecond.
  static let part = 65_536

  enum Step: Equatable {
    case unfinished
    /// The compressed bytes, or nil if they would not be fewer or zlib has no memory.
    case finished([UInt8]?)
  }

  /// - Parameter level: The level of zlib, from 1 to 9. On catalog responses, level 6 results in about a tenth more bytes
  ///   than level 9, in a fraction of the time.
  init(_ input: [UInt8], level: Int32 = 6) {
    self.input = input
    unsafe stream.initialize(to: z_stream())
    isUsable = unsafe czlib_deflate_init_gzip(stream, level) == Z_OK
  }

  deinit {
    if isUsable { unsafe deflateEnd(stream) }
    unsafe stream.deallocate()
  }

  /// Compresses the next part. Call it until it returns `finished`.
  func advance() -> Step {
    guard isUsable else { return .finished(nil) }
    var part = Array(input[position...].prefix(Self.part))
    position += part.count
    let isLast = position == input.count
    // Safe: zlib reads the part only within this call, and knows its size.
    let isTaken = unsafe part.withUnsafeMutableBufferPointer { part in
      unsafe stream.pointee.next_in = part.baseAddress
      unsafe stream.pointee.avail_in = UInt32(part.count)
      return take(flush: isLast ? Z_FINISH : Z_NO_FLUSH)
    }
    guard isTaken, output.count < input.count else { return .finished(nil) }
    return isLast ? .finished(output) : .unfinished
  }

  /// Lets zlib take the whole part. Returns false if it fails.
  private func take(flush: Int32) -> Bool {
    while true {
      switch append(flush: flush) {
      case Z_STREAM_END: return true
      // Room that is left shows that the part is taken. With Z_FINISH zlib then returns Z_STREAM_END.
      case Z_OK where unsafe stream.pointee.avail_out == 0: continue
      case Z_OK: return flush == Z_NO_FLUSH
      // The part ended exactly with the room, so there was nothing to do.
      case Z_BUF_ERROR: return flush == Z_NO_FLUSH
      default: return false
      }
    }
  }

  /// Calls zlib once, with room for a quarter of a part: JSON needs less than that.
  private func append(flush: Int32) -> Int32 {
    var result = Z_OK
    output.append(addingCapacity: Self.part / 4) { (span: inout OutputSpan<UInt8>) in
      // Safe: zlib knows the size of the room, and reports the unused part in `avail_out`.
      unsafe span.withUnsafeMutableBufferPointer { buffer, initialized in
        let room = min(buffer.count - initialized, Self.part / 4)
        unsafe stream.pointee.next_out = buffer.baseAddress.map { unsafe $0 + initialized }
        unsafe stream.pointee.avail_out = UInt32(truncatingIfNeeded: room)
        result = unsafe CZlib.deflate(stream, flush)
        initialized += room - Int(unsafe stream.pointee.avail_out)
      }
    }
    return result
  }
}
