import Bytes
import CZlib
import HTTP1

/// How a response's content is coded on its way to the caller (RFC 9110 §8.4.1).
public enum ContentCoding: Sendable, Equatable {
  /// As it is.
  case identity
  /// By gzip (RFC 1952).
  case gzip

  /// What a caller prefers by its `Accept-Encoding` (RFC 9110 §12.5.3). One line of it is enough: a caller who sends
  /// several gets what the first one says. Identity without the field, and where neither is wanted.
  ///
  /// Read in place. Browsers send five elements; a list that is far longer costs nothing and gets identity.
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
    // Identity that is not named is acceptable, and less wanted than anything that is.
    let gzipWeight = gzip ?? other ?? 0
    return gzipWeight > 0 && gzipWeight >= identity ?? 0 ? .gzip : .identity
  }
}

extension FieldScanner {
  /// Passes the rest of an element with its comma: the weight in thousandths (RFC 9110 §12.4.2). What is malformed
  /// counts as not wanted.
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

/// Why content that came gzipped could not be decoded.
public enum ContentCodingError: Error, Sendable, Equatable {
  /// It is no gzip, is damaged, or does not end.
  case malformed
  /// It decodes to more than `limit` bytes.
  case tooLarge(limit: Int)
}

/// Whole contents in and out of gzip (RFC 1952).
enum Gzip {
  /// 64 kB at a time: content of a catalog response mostly has less.
  private static let chunk = 65_536

  /// The coded bytes; nil if they would be no fewer, or zlib has no memory.
  static func deflate(_ bytes: [UInt8]) -> [UInt8]? {
    guard let available = UInt32(exactly: bytes.count), available > 0 else { return nil }
    var stream = unsafe z_stream()
    // Level 6 takes about a tenth more space than 9 on catalog responses, at a fraction of the time.
    guard unsafe czlib_deflate_init_gzip(&stream, 6) == Z_OK else { return nil }
    defer { unsafe deflateEnd(&stream) }
    var input = bytes
    // Safe: both buffers outlive the one call that reads and writes them, and zlib is told their sizes.
    let output = unsafe [UInt8](unsafeUninitializedCapacity: bytes.count) { output, written in
      unsafe input.withUnsafeMutableBufferPointer { input in
        unsafe stream.next_in = input.baseAddress
        unsafe stream.avail_in = available
        unsafe stream.next_out = output.baseAddress
        unsafe stream.avail_out = available
        let isWhole = unsafe CZlib.deflate(&stream, Z_FINISH) == Z_STREAM_END
        written = isWhole ? Int(unsafe available - stream.avail_out) : 0
      }
    }
    return output.isEmpty || output.count >= bytes.count ? nil : output
  }

  /// The decoded bytes, of all members that there are.
  ///
  /// - Parameter limit: What they may come to. Gzip multiplies by up to 1032, so nothing but this bounds the work.
  static func inflate(_ bytes: [UInt8], limit: Int) throws(ContentCodingError) -> [UInt8] {
    guard let available = UInt32(exactly: bytes.count) else { throw .tooLarge(limit: limit) }
    var stream = unsafe z_stream()
    guard unsafe czlib_inflate_init_gzip(&stream) == Z_OK else { throw .malformed }
    defer { unsafe inflateEnd(&stream) }
    var input = bytes
    var output: [UInt8] = []
    var failure: ContentCodingError?
    // Safe: the input is there for as long as the stream reads it, and zlib is told its size.
    unsafe input.withUnsafeMutableBufferPointer { input in
      unsafe stream.next_in = input.baseAddress
      unsafe stream.avail_in = available
      failure = unsafe inflateMembers(&stream, to: &output, limit: limit)
    }
    if let failure { throw failure }
    return output
  }

  /// Reads member after member (RFC 1952 §2.2) until there is no input: what follows one has to be another.
  private static func inflateMembers(
    _ stream: inout z_stream, to output: inout [UInt8], limit: Int
  ) -> ContentCodingError? {
    while true {
      let result = unsafe append(&stream, to: &output)
      if output.count > limit { return .tooLarge(limit: limit) }
      switch result {
      case Z_STREAM_END where unsafe stream.avail_in == 0: return nil
      case Z_STREAM_END: unsafe inflateReset(&stream)
      // Room is left and input is not: it breaks off.
      case Z_OK where unsafe stream.avail_in == 0 && stream.avail_out > 0: return .malformed
      case Z_OK: continue
      default: return .malformed
      }
    }
  }

  /// One call of zlib, with room for a chunk.
  private static func append(_ stream: inout z_stream, to output: inout [UInt8]) -> Int32 {
    var result = Z_OK
    output.append(addingCapacity: chunk) { (span: inout OutputSpan<UInt8>) in
      // Safe: zlib is told how much room there is, and leaves what it did not use in `avail_out`.
      unsafe span.withUnsafeMutableBufferPointer { buffer, initialized in
        let room = min(buffer.count - initialized, chunk)
        unsafe stream.next_out = buffer.baseAddress.map { unsafe $0 + initialized }
        unsafe stream.avail_out = UInt32(truncatingIfNeeded: room)
        result = unsafe CZlib.inflate(&stream, Z_NO_FLUSH)
        initialized += room - Int(unsafe stream.avail_out)
      }
    }
    return result
  }
}
