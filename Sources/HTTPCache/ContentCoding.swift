import Bytes
import CZlib
import HTTP1

/// The content coding of a response to a caller (RFC 9110 §8.4.1).
public enum ContentCoding: Sendable, Equatable {
  case identity
  /// gzip (RFC 1952).
  case gzip

  /// Returns the preferred coding of an `Accept-Encoding` line (RFC 9110 §12.5.3). The default is identity, also if the
  /// field accepts neither coding. Browsers send five elements; a much longer list gets identity.
  public static func preferred(acceptEncoding value: Span<UInt8>) -> ContentCoding {
    guard value.count <= 1024 else { return .identity }
    var gzip: Int?
    var other: Int?
    var identity: Int?
    var scanner = FieldScanner()
    var elements = 0
    while !scanner.isAtEnd(in: value) {
      elements += 1
      guard elements <= 32 else { return .identity }
      scanner.skipWhitespace(in: value)
      let name = scanner.token(in: value)
      let weight = scanner.weight(in: value)
      if value.equalsIgnoringCase(name, "gzip") || value.equalsIgnoringCase(name, "x-gzip") {
        gzip = max(gzip ?? 0, weight)
      } else if value.equalsIgnoringCase(name, "identity") {
        identity = weight
      } else if value.equalsIgnoringCase(name, "*") {
        other = weight
      }
    }
    // Identity is acceptable without being named, but less preferred than every named coding.
    let gzipWeight = gzip ?? other ?? 0
    return gzipWeight > 0 && gzipWeight >= identity ?? 0 ? .gzip : .identity
  }
}

extension FieldScanner {
  /// Skips the rest of an element with its comma. Returns the weight in thousandths (RFC 9110 §12.4.2), 0 if malformed.
  fileprivate mutating func weight(in bytes: Span<UInt8>) -> Int {
    var weight = 1000
    skipWhitespace(in: bytes)
    if take(";", in: bytes) {
      skipWhitespace(in: bytes)
      let name = token(in: bytes)
      weight = 0
      if bytes.equalsIgnoringCase(name, "q"), take("=", in: bytes) {
        weight = bytes.qualityValue(in: token(in: bytes))
      }
    }
    return skip(past: ",", in: bytes) == .nothing ? weight : 0
  }
}

/// The reason why gzipped content could not be decoded.
public enum ContentCodingError: Error, Sendable, Equatable {
  /// The content is not gzip, is damaged, or is incomplete.
  case malformed
  case tooLarge(limit: Int)
}

/// Compression and decompression of whole contents with gzip (RFC 1952).
package enum Gzip {
  /// The chunk size, 64 kB. The content of most catalog responses is smaller.
  private static let chunk = 65_536

  /// Returns the compressed bytes, or nil if they would not be fewer or zlib has no memory.
  static func deflate(_ bytes: [UInt8], level: Int32 = 6) -> [UInt8]? {
    let work = GradualCompression(bytes, level: level)
    while true {
      if case .finished(let output) = work.advance() { return output }
    }
  }

  /// Returns the decoded bytes of all gzip members. Gzip expands by up to 1032, so only the limit of them bounds the work.
  package static func inflate(_ bytes: [UInt8], limit: Int) throws(ContentCodingError) -> [UInt8] {
    guard let available = UInt32(exactly: bytes.count) else { throw .tooLarge(limit: limit) }
    var stream = unsafe z_stream()
    guard unsafe czlib_inflate_init_gzip(&stream) == Z_OK else { throw .malformed }
    defer { unsafe inflateEnd(&stream) }
    var input = bytes
    var output: [UInt8] = []
    var failure: ContentCodingError?
    // Safe: the input lives as long as the stream reads it, and zlib knows its size.
    unsafe input.withUnsafeMutableBufferPointer { input in
      unsafe stream.next_in = input.baseAddress
      unsafe stream.avail_in = available
      failure = unsafe inflateMembers(&stream, to: &output, limit: limit)
    }
    if let failure { throw failure }
    return output
  }

  /// Decodes member after member (RFC 1952 §2.2) to the end of input. Bytes after a member must be a new member.
  private static func inflateMembers(
    _ stream: inout z_stream, to output: inout [UInt8], limit: Int
  ) -> ContentCodingError? {
    while true {
      let result = unsafe output.append(upTo: chunk, of: &stream) { unsafe CZlib.inflate($0, Z_NO_FLUSH) }
      if output.count > limit { return .tooLarge(limit: limit) }
      switch result {
      case Z_STREAM_END where unsafe stream.avail_in == 0: return nil
      case Z_STREAM_END: unsafe inflateReset(&stream)
      // Output room is left but no input: the content is incomplete.
      case Z_OK where unsafe stream.avail_in == 0 && stream.avail_out > 0: return .malformed
      case Z_OK: continue
      default: return .malformed
      }
    }
  }
}

/// The compression of a content with gzip (RFC 1952), a part at a time, so that a long content keeps no event loop busy.
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

  /// - Parameter level: Of zlib, from 1 to 9. Level 6 makes catalog responses a tenth longer than 9, in a fraction of the
  ///   time.
  init(_ input: [UInt8], level: Int32 = 6) {
    self.input = input
    unsafe stream.initialize(to: z_stream())
    isUsable = unsafe czlib_deflate_init_gzip(stream, level) == Z_OK
  }

  deinit {
    if isUsable { unsafe deflateEnd(stream) }
    unsafe stream.deallocate()
  }

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
      // JSON needs less than a quarter of its size.
      let result = unsafe output.append(upTo: Self.part / 4, of: stream) { unsafe CZlib.deflate($0, flush) }
      switch result {
      case Z_STREAM_END: return true
      // Room that is left shows that the part is taken. With Z_FINISH zlib then returns Z_STREAM_END.
      case Z_OK where unsafe stream.pointee.avail_out == 0: continue
      // Z_BUF_ERROR: the part ended exactly with the room, so there was nothing to do.
      case Z_OK, Z_BUF_ERROR: return flush == Z_NO_FLUSH
      default: return false
      }
    }
  }
}

extension [UInt8] {
  /// Calls a function of zlib once, with room for `room` bytes more. Returns the function's result.
  fileprivate mutating func append(
    upTo room: Int, of stream: UnsafeMutablePointer<z_stream>, _ call: (UnsafeMutablePointer<z_stream>) -> Int32
  ) -> Int32 {
    var result = Z_OK
    append(addingCapacity: room) { (span: inout OutputSpan<UInt8>) in
      // Safe: zlib knows the size of the room, and reports the unused part in `avail_out`.
      unsafe span.withUnsafeMutableBufferPointer { buffer, initialized in
        let room = Swift.min(buffer.count - initialized, room)
        unsafe stream.pointee.next_out = buffer.baseAddress.map { unsafe $0 + initialized }
        unsafe stream.pointee.avail_out = UInt32(truncatingIfNeeded: room)
        result = unsafe call(stream)
        initialized += room - Int(unsafe stream.pointee.avail_out)
      }
    }
    return result
  }
}
