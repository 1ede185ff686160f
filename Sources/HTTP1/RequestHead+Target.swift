extension RequestHead {
  /// Tells the form of ``target`` and takes it apart (RFC 9112 §3.2). Dot segments and escapes stay as they are.
  mutating func interpretTarget(in bytes: Span<UInt8>) throws(RequestError) {
    if method == .connect {
      try interpretAuthorityForm(in: bytes)
    } else if bytes[target.lowerBound] == .slash {
      targetForm = .origin
      try interpretPathAndQuery(target, in: bytes)
    } else if target.count == 1, bytes[target.lowerBound] == .asterisk {
      guard method == .options else { throw .malformedTarget }
      targetForm = .asterisk
      path = target
    } else {
      try interpretAbsoluteForm(in: bytes)
    }
  }

  /// `host:port`, where CONNECT cannot do without the port (RFC 9112 §3.2.3).
  private mutating func interpretAuthorityForm(in bytes: Span<UInt8>) throws(RequestError) {
    targetForm = .authority
    guard let host = Authority(target, in: bytes) else { throw .malformedTarget }
    guard host.port != nil else { throw .malformedTarget }
    authority = target
    path = target.upperBound..<target.upperBound
  }

  /// An `http` or `https` URI (RFC 9112 §3.2.2, RFC 9110 §4.2). Userinfo is refused: it makes a host look like another
  /// (RFC 9110 §4.2.4).
  private mutating func interpretAbsoluteForm(in bytes: Span<UInt8>) throws(RequestError) {
    targetForm = .absolute
    guard
      let colon = bytes.firstIndex(of: .colon, in: target), target.upperBound &- colon >= 3,
      bytes.equals(colon..<colon &+ 3, "://")
    else { throw .malformedTarget }
    let scheme = target.lowerBound..<colon
    guard bytes.equalsIgnoringCase(scheme, "http") || bytes.equalsIgnoringCase(scheme, "https") else {
      throw .unsupportedScheme
    }
    let start = colon &+ 3
    var end = start
    while end < target.upperBound, !Self.endsAuthority(bytes[end]) { end &+= 1 }
    guard Authority(start..<end, in: bytes) != nil else { throw .malformedHost }
    authority = start..<end
    try interpretPathAndQuery(end..<target.upperBound, in: bytes)
  }

  /// Whether `byte` ends an authority (RFC 3986 §3.2).
  private static func endsAuthority(_ byte: UInt8) -> Bool {
    byte == .slash || byte == .questionMark || byte == .numberSign
  }

  /// `path-abempty [ "?" query ]`, every escape in it complete and none a NUL.
  private mutating func interpretPathAndQuery(_ range: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    var allowed = ByteSet.path
    path = range
    var index = range.lowerBound
    while index < range.upperBound {
      let byte = bytes[index]
      if byte == .percentSign {
        index = try Self.escapeEnd(at: index, before: range.upperBound, in: bytes)
        continue
      }
      if byte == .questionMark, query == nil {
        path = range.lowerBound..<index
        query = index &+ 1..<range.upperBound
        allowed = .query
      } else if !allowed.contains(byte) {
        throw byte == .numberSign ? .fragmentInTarget : .malformedTarget
      }
      index &+= 1
    }
  }

  /// The end of the percent-encoded byte at `index`.
  private static func escapeEnd(
    at index: Int, before end: Int, in bytes: Span<UInt8>
  ) throws(RequestError) -> Int {
    guard
      end &- index >= 3, let high = bytes[index &+ 1].hexadecimalDigit, let low = bytes[index &+ 2].hexadecimalDigit
    else { throw .malformedPercentEncoding }
    guard high | low != 0 else { throw .encodedNUL }
    return index &+ 3
  }
}
