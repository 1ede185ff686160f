import CZlib

/// gzip (RFC 1952), for answers to those who accept it.
enum Compression {
  /// Compresses the content if the request accepts gzip and the content is worth it.
  static func apply(to answer: inout SandboxAnswer, for request: SandboxRequest) {
    answer.fields.append(SandboxField("Vary", "Accept-Encoding"))
    guard accepts(request.fields), answer.content.count >= 256, let compressed = gzip(answer.content) else { return }
    answer.content = compressed
    answer.fields.append(SandboxField("Content-Encoding", "gzip"))
  }

  /// Whether gzip is named without a weight of zero (RFC 9110 §12.5.3).
  private static func accepts(_ fields: [SandboxField]) -> Bool {
    fields.values(of: "accept-encoding").joined(separator: ",").lowercased().split(separator: ",").contains { item in
      let parts = item.split(separator: ";").map { $0.filter { $0 != " " } }
      guard parts.first == "gzip" else { return false }
      return !parts.dropFirst().contains { $0.hasPrefix("q=0") && !$0.dropFirst(3).contains { $0 != "." && $0 != "0" } }
    }
  }

  private static func gzip(_ input: [UInt8]) -> [UInt8]? {
    var stream = unsafe z_stream()
    guard unsafe czlib_deflate_init_gzip(&stream, 6) == Z_OK else { return nil }
    defer { unsafe _ = deflateEnd(&stream) }
    // What deflate may need, and the header and trailer of gzip (§2.2).
    var output = [UInt8](repeating: 0, count: Int(unsafe deflateBound(&stream, UInt(input.count))) + 32)
    var source = input
    let result = unsafe source.withUnsafeMutableBufferPointer { source in
      unsafe output.withUnsafeMutableBufferPointer { output in
        // Safe: both buffers are lent for the whole of the one call that reads and writes them.
        unsafe stream.next_in = source.baseAddress
        unsafe stream.avail_in = UInt32(clamping: source.count)
        unsafe stream.next_out = output.baseAddress
        unsafe stream.avail_out = UInt32(clamping: output.count)
        return unsafe deflate(&stream, Z_FINISH)
      }
    }
    guard result == Z_STREAM_END else { return nil }
    output.removeLast(Int(unsafe stream.avail_out))
    return output
  }
}
