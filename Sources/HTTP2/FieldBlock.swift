import Bytes
import CNghttp2
import HTTP1

/// A header section to be sent, in the layout of nghttp2. A session reuses one block to keep its storage.
// Safe: the pointers refer to the bytes of this block, and are read only while `withPairs` holds those bytes.
@safe struct FieldBlock {
  /// The size as RFC 9113 §6.5.2 counts it.
  private(set) var size = 0
  private var bytes: [UInt8] = []
  private var lines: [Line] = []
  private var pairs: [nghttp2_nv] = unsafe []

  private struct Line {
    let name: Range<Int>
    let value: Range<Int>
    let isIndexed: Bool
  }

  var heldBytes: Int {
    let ofPairs = unsafe pairs.capacity * MemoryLayout<nghttp2_nv>.stride
    return bytes.capacity + lines.capacity * MemoryLayout<Line>.stride + ofPairs
  }

  /// Starts a request. CONNECT has neither scheme nor path (RFC 9113 §8.5).
  mutating func begin(_ head: HTTP2RequestHead) {
    reset()
    append(":method", head.method)
    if !head.scheme.isEmpty { append(":scheme", head.scheme) }
    append(":authority", head.authority)
    if head.path.count > 0 { append(":path", head.path.bytes.span) }
    append(head.fields)
    append(head.credential)
  }

  /// Starts a response with the head that it has in HTTP/1.1.
  mutating func begin(status: Int, _ writeHead: (inout [UInt8]) -> Void) {
    reset()
    bytes.append(":status")
    let value = bytes.count
    bytes.append(decimal: status, width: 3)
    let start = bytes.count
    note(0..<value, value..<start)
    writeHead(&bytes)
    splitLines(from: start)
  }

  /// Calls `body` with the fields. The library copies them.
  mutating func withPairs<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
    unsafe pairs.removeAll(keepingCapacity: true)
    return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
      guard let start = buffer.baseAddress else { return body(nil, 0) }
      for line in lines {
        let flags = line.isIndexed ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX
        // Safe: the ranges of a line are within the bytes.
        unsafe pairs.append(
          nghttp2_nv(
            name: start + line.name.lowerBound, value: start + line.value.lowerBound, namelen: line.name.count,
            valuelen: line.value.count, flags: UInt8(truncatingIfNeeded: flags.rawValue)))
      }
      return unsafe pairs.withUnsafeBufferPointer { unsafe body($0.baseAddress, $0.count) }
    }
  }

  private mutating func reset() {
    size = 0
    bytes.removeAll(keepingCapacity: true)
    lines.removeAll(keepingCapacity: true)
  }

  private mutating func append(_ name: StaticString, _ value: String) { value.withUTF8Bytes { append(name, $0) } }

  private mutating func append(_ name: StaticString, _ value: Span<UInt8>) {
    let start = bytes.count
    bytes.append(name)
    let middle = bytes.count
    bytes.append(copying: value)
    note(start..<middle, middle..<bytes.count)
  }

  private mutating func append(_ fields: FieldLines) {
    let offset = bytes.count
    bytes.append(copying: fields.bytes.span)
    for line in fields.lines {
      let name = line.name.lowerBound + offset..<line.name.upperBound + offset
      bytes.lowercase(name)
      note(name, line.value.lowerBound + offset..<line.value.upperBound + offset, isIndexed: !line.isUnindexed)
    }
  }

  private mutating func splitLines(from start: Int) {
    let end = bytes.count
    guard let statusEnd = bytes.span.firstIndex(of: UInt8(ascii: "\n"), in: start..<end) else { return }
    var next = statusEnd + 1
    while next < end, let colon = bytes.span.firstIndex(of: UInt8(ascii: ":"), in: next..<end),
      let lineEnd = bytes.span.firstIndex(of: UInt8(ascii: "\r"), in: colon..<end)
    {
      bytes.lowercase(next..<colon)
      note(next..<colon, min(colon + 2, lineEnd)..<lineEnd)
      next = lineEnd + 2
    }
  }

  private mutating func note(_ name: Range<Int>, _ value: Range<Int>, isIndexed: Bool = true) {
    guard !isOfConnection(name) else { return }
    size += name.count + value.count + 32
    // A value that differs in each response would only displace others in the HPACK table.
    let isUnique = name.count == 12 && isNamed(name, "x-request-id")
    lines.append(Line(name: name, value: value, isIndexed: isIndexed && !isUnique))
  }

  /// Returns whether HTTP/2 forbids the field (RFC 9113 §8.2.2), or it is Host, which `:authority` replaces (§8.3.1).
  private func isOfConnection(_ name: Range<Int>) -> Bool {
    switch name.count {
    case 4: isNamed(name, "host")
    case 7: isNamed(name, "upgrade")
    case 10: isNamed(name, "connection") || isNamed(name, "keep-alive")
    case 14: isNamed(name, "http2-settings")
    case 16: isNamed(name, "proxy-connection")
    case 17: isNamed(name, "transfer-encoding")
    default: false
    }
  }

  private func isNamed(_ name: Range<Int>, _ text: StaticString) -> Bool { bytes.span.equals(name, text) }
}

extension [UInt8] {
  /// Makes a field name lower-case (RFC 9113 §8.2.1).
  fileprivate mutating func lowercase(_ name: Range<Int>) {
    unsafe withUnsafeMutableBufferPointer { bytes in
      // Safe: the slice is within the bytes, or it traps.
      let letters = unsafe UnsafeMutableBufferPointer(rebasing: bytes[name])
      for index in letters.indices { unsafe letters[index] = letters[index].lowercased }
    }
  }
}
