import Bytes

extension RequestHead {
  /// Interprets `method SP request-target SP HTTP-version` (RFC 9112 §3).
  ///
  /// - Parameters:
  ///   - line: The line without its CRLF. It contains no control character, and its method is a token.
  ///   - methodEnd: The index of the first space.
  ///   - bytes: The received bytes.
  mutating func interpretRequestLine(
    _ line: Range<Int>, methodEnd: Int, in bytes: Span<UInt8>
  ) throws(RequestError) {
    methodRange = line.lowerBound..<methodEnd
    method = Method(methodRange, in: bytes)
    let rest = methodEnd &+ 1..<line.upperBound
    guard let space = bytes.firstIndex(of: .space, in: rest) else { throw .malformedRequestLine }
    target = rest.lowerBound..<space
    statedVersion = try Self.version(space &+ 1..<line.upperBound, in: bytes)
    guard !target.isEmpty else { throw .malformedRequestLine }
    try interpretTarget(in: bytes)
  }

  /// Interprets control data that another protocol has separated (RFC 9113 §8.3.1): the same rules, but no
  /// absolute-form.
  mutating func interpret(_ control: RequestControlData, in bytes: Span<UInt8>) throws(RequestError) {
    methodRange = control.method
    method = Method(control.method, in: bytes)
    target = control.target
    statedVersion = .http11
    guard !target.isEmpty else { throw .malformedRequestLine }
    try interpretTarget(in: bytes)
    guard targetForm != .absolute else { throw .malformedTarget }
    guard method == .connect || bytes.isSchemeOfHTTP(control.scheme) else { throw .unsupportedScheme }
  }

  /// Parses `"HTTP/" DIGIT "." DIGIT`, which is case-sensitive (RFC 9112 §2.3). The server supports only major version
  /// 1. Its minor versions above 1 count as 1 (RFC 9110 §2.5).
  private static func version(_ range: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) -> HTTPVersion {
    let start = range.lowerBound
    guard
      range.count == 8, bytes.equals(start..<start &+ 5, "HTTP/"), bytes[start &+ 6] == .period,
      let major = bytes[start &+ 5].decimalDigit, let minor = bytes[start &+ 7].decimalDigit
    else { throw .malformedRequestLine }
    guard major == 1 else { throw .unsupportedVersion }
    return minor == 0 ? .http10 : .http11
  }
}

extension RequestHead {
  /// Finds the form of ``target`` and its parts (RFC 9112 §3.2). Dot segments and escapes stay as they are.
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

  /// Interprets `host:port`. CONNECT requires the port (RFC 9112 §3.2.3).
  private mutating func interpretAuthorityForm(in bytes: Span<UInt8>) throws(RequestError) {
    targetForm = .authority
    guard let host = Authority(target, in: bytes) else { throw .malformedTarget }
    guard host.port != nil else { throw .malformedTarget }
    authority = target
    path = target.upperBound..<target.upperBound
  }

  /// Interprets an `http` or `https` URI (RFC 9112 §3.2.2, RFC 9110 §4.2). Userinfo is refused, because it makes one
  /// host look like another (RFC 9110 §4.2.4).
  private mutating func interpretAbsoluteForm(in bytes: Span<UInt8>) throws(RequestError) {
    targetForm = .absolute
    guard
      let colon = bytes.firstIndex(of: .colon, in: target), target.upperBound &- colon >= 3,
      bytes.equals(colon..<colon &+ 3, "://")
    else { throw .malformedTarget }
    let scheme = target.lowerBound..<colon
    guard bytes.isSchemeOfHTTP(scheme) else { throw .unsupportedScheme }
    let start = colon &+ 3
    var end = start
    while end < target.upperBound, !Self.endsAuthority(bytes[end]) { end &+= 1 }
    guard Authority(start..<end, in: bytes) != nil else { throw .malformedHost }
    authority = start..<end
    try interpretPathAndQuery(end..<target.upperBound, in: bytes)
  }

  private static func endsAuthority(_ byte: UInt8) -> Bool {
    byte == .slash || byte == .questionMark || byte == .numberSign
  }

  /// Interprets `path-abempty [ "?" query ]`. Every escape in it must be complete and not a NUL.
  ///
  /// Bytes beyond ASCII pass, although a URI cannot contain them: they end no part of a message, so the connection can
  /// go on after the refusal, which is for the route to write.
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
      } else if !allowed.contains(byte), byte < 0x80 {
        throw byte == .numberSign ? .fragmentInTarget : .malformedTarget
      }
      index &+= 1
    }
  }

  private static func escapeEnd(
    at index: Int, before end: Int, in bytes: Span<UInt8>
  ) throws(RequestError) -> Int {
    guard let byte = bytes.percentEncodedByte(at: index, before: end) else { throw .malformedPercentEncoding }
    guard byte != 0 else { throw .encodedNUL }
    return index &+ 3
  }
}

/// `uri-host [ ":" port ]` (RFC 9110 §7.2), as in Host and in request targets.
///
/// The host is not empty. It is a `reg-name`, which includes IPv4 addresses, or an IPv6 address in brackets. Userinfo,
/// a zone and `IPvFuture`, of which no version is defined, are refused. A port has up to five digits and is at most
/// 65535. It may be empty after the colon (RFC 3986 §3.2.3).
struct Authority {
  /// The digits of the port, or nil if there are none.
  let port: Range<Int>?

  /// Parses the bytes in `range`. Returns nil if they are no authority.
  init?(_ range: Range<Int>, in bytes: Span<UInt8>) {
    guard let hostEnd = Self.hostEnd(in: range, of: bytes) else { return nil }
    if hostEnd == range.upperBound {
      port = nil
      return
    }
    guard bytes[hostEnd] == .colon else { return nil }
    let digits = hostEnd &+ 1..<range.upperBound
    guard digits.isEmpty || (digits.count <= 5 && (bytes.decimal(in: digits) ?? .max) <= 65535) else { return nil }
    port = digits.isEmpty ? nil : digits
  }

  private static func hostEnd(in range: Range<Int>, of bytes: Span<UInt8>) -> Int? {
    guard !range.isEmpty else { return nil }
    if bytes[range.lowerBound] == .leftBracket {
      guard
        let bracket = bytes.firstIndex(of: .rightBracket, in: range),
        bytes.extracting(range.lowerBound &+ 1..<bracket).ipv6Address != nil
      else { return nil }
      return bracket &+ 1
    }
    return registeredNameEnd(in: range, of: bytes)
  }

  /// Returns the end of the `reg-name` at the start of `range` (RFC 3986 §3.2.2): the colon or the end. Nil if empty.
  private static func registeredNameEnd(in range: Range<Int>, of bytes: Span<UInt8>) -> Int? {
    var index = range.lowerBound
    while index < range.upperBound, bytes[index] != .colon {
      guard ByteSet.registeredName.contains(bytes[index]) else { return nil }
      if bytes[index] == .percentSign {
        guard let byte = bytes.percentEncodedByte(at: index, before: range.upperBound), byte != 0 else { return nil }
        index &+= 2
      }
      index &+= 1
    }
    return index > range.lowerBound ? index : nil
  }
}

extension Span<UInt8> {
  fileprivate func isSchemeOfHTTP(_ range: Range<Int>) -> Bool {
    equalsIgnoringCase(range, "http") || equalsIgnoringCase(range, "https")
  }
}
