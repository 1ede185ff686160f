import Bytes

/// The content of a request head: properties, and ranges of the buffer passed to ``RequestHeadParser/parse(_:)``.
public struct RequestHead: Sendable, Equatable {
  /// The method, by name if it is known.
  public internal(set) var method = Method.other
  /// The bytes of the method: a token, case-sensitive.
  public internal(set) var methodRange = 0..<0
  /// The bytes of the request target as received.
  public internal(set) var target = 0..<0
  /// The form of the request target.
  public internal(set) var targetForm = TargetForm.origin
  /// The path, still percent-encoded. It begins with `/` in origin-form, is `*` in asterisk-form and empty in
  /// authority-form. In absolute-form it is the part after the authority: if empty, it means `/` (RFC 9110 §4.2.3), or
  /// `*` for OPTIONS without a query (RFC 9112 §3.2.4).
  public internal(set) var path = 0..<0
  /// The query without its `?`, still percent-encoded. Nil if there is no `?`.
  public internal(set) var query: Range<Int>?
  /// Host and optional port: from the target if it has them (RFC 9112 §3.2.2), else from Host. Empty only in HTTP/1.0.
  public internal(set) var authority = 0..<0
  /// The protocol version of the request line; nil before it, and for a version that the server does not support.
  public internal(set) var statedVersion: HTTPVersion?
  /// The protocol version, for the response: HTTP/1.1 without a ``statedVersion``.
  public var version: HTTPVersion { statedVersion ?? .http11 }
  /// The field lines, in the order received.
  public internal(set) var fields: [FieldLine] = []
  /// The framing of the body.
  public internal(set) var framing = MessageFraming.none
  /// Whether the client keeps the connection open after the response (RFC 9112 §9.3).
  public internal(set) var keepAlive = true
  /// Whether there is an expectation of 100 (Continue), the only one that exists (RFC 9110 §10.1.1). Always false in
  /// HTTP/1.0. In HTTP/2, content may follow without a field that says so.
  public internal(set) var hasExpectation = false
  /// Whether the client waits for 100 (Continue) before it sends the body. Always false without a body.
  public var expectsContinue: Bool { hasExpectation && framing != .none }
  /// The forwarding fields that are present. Proxies write them, but any client can send them too.
  public internal(set) var forwarding: ForwardingFields = []
  /// Whether there is a `traceparent`. The parser records it, so that a request without it costs no lookup.
  public internal(set) var hasTraceParent = false
  /// Whether there is a music user token: `Music-User-Token`, or `Media-User-Token`, the older name.
  public internal(set) var hasUserToken = false

  /// Clears every range except the lines of one field. Returns a copy of their bytes, which the ranges then refer to.
  package mutating func forget(_ bytes: Span<UInt8>, except lowercaseName: StaticString?) -> [UInt8] {
    var kept: [UInt8] = []
    var lines: [FieldLine] = []
    for line in fields {
      guard let lowercaseName, bytes.equalsIgnoringCase(line.name, lowercaseName) else { continue }
      let name = kept.count..<kept.count + line.name.count
      kept.append(copying: bytes.extracting(line.name))
      let value = kept.count..<kept.count + line.value.count
      kept.append(copying: bytes.extracting(line.value))
      lines.append(FieldLine(name: name, value: value))
    }
    (methodRange, target, path, query, authority) = (0..<0, 0..<0, 0..<0, nil, 0..<0)
    fields = lines
    return kept
  }

  /// Clears every range of a head that was refused, and has these lines instead. Returns their bytes.
  package mutating func forget(keeping values: [(name: StaticString, value: [UInt8])]) -> [UInt8] {
    var kept: [UInt8] = []
    (methodRange, target, path, query, authority) = (0..<0, 0..<0, 0..<0, nil, 0..<0)
    // They describe fields that are gone.
    (forwarding, hasTraceParent, hasUserToken) = ([], false, false)
    fields = values.map { name, value in
      let start = kept.count
      kept.append(name)
      let middle = kept.count
      kept.append(contentsOf: value)
      return FieldLine(name: start..<middle, value: middle..<kept.count)
    }
    return kept
  }

  /// The size of the storage of ``fields`` in bytes.
  public var storageBytes: Int { fields.capacity * MemoryLayout<FieldLine>.stride }

  /// Clears everything, but keeps the storage of ``fields``.
  mutating func reset() {
    var storage: [FieldLine] = []
    swap(&storage, &fields)
    storage.removeAll(keepingCapacity: true)
    self = RequestHead()
    fields = storage
  }

  /// The four forms of a request target (RFC 9112 §3.2).
  public enum TargetForm: Sendable, Equatable {
    /// `/path?query`.
    case origin
    /// `http://host/path?query`, or `https`.
    case absolute
    /// `host:port`, only with CONNECT.
    case authority
    /// `*`, only with OPTIONS.
    case asterisk
  }

  /// The methods of RFC 9110 §9.3 and PATCH (RFC 5789).
  public enum Method: Sendable, Equatable {
    case get, head, post, put, delete, connect, options, trace, patch, other

    /// Creates the method from the bytes in `range`. The registered names are in upper case.
    @inline(__always)
    init(_ range: Range<Int>, in bytes: Span<UInt8>) {
      switch range.count {
      case 3 where bytes.equals(range, "GET"): self = .get
      case 3 where bytes.equals(range, "PUT"): self = .put
      case 4 where bytes.equals(range, "HEAD"): self = .head
      case 4 where bytes.equals(range, "POST"): self = .post
      case 5 where bytes.equals(range, "TRACE"): self = .trace
      case 5 where bytes.equals(range, "PATCH"): self = .patch
      case 6 where bytes.equals(range, "DELETE"): self = .delete
      case 7 where bytes.equals(range, "OPTIONS"): self = .options
      case 7 where bytes.equals(range, "CONNECT"): self = .connect
      default: self = .other
      }
    }
  }

  /// Interprets `method SP request-target SP HTTP-version` (RFC 9112 §3) with a token up to `methodEnd` as its method.
  mutating func interpretRequestLine(_ line: Range<Int>, methodEnd: Int, in bytes: Span<UInt8>) throws(RequestError) {
    methodRange = line.lowerBound..<methodEnd
    method = Method(methodRange, in: bytes)
    let rest = methodEnd &+ 1..<line.upperBound
    guard let space = bytes.firstIndex(of: .space, in: rest) else { throw .malformedRequestLine }
    target = rest.lowerBound..<space
    statedVersion = try Self.version(space &+ 1..<line.upperBound, in: bytes)
    guard !target.isEmpty else { throw .malformedRequestLine }
    try interpretTarget(in: bytes)
  }

  /// Interprets control data of HTTP/2 (RFC 9113 §8.3.1): the same rules, but no absolute-form.
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

  /// Parses `"HTTP/1." DIGIT`, in this case (RFC 9112 §2.3). Minor versions above 1 count as 1 (RFC 9110 §2.5).
  private static func version(_ range: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) -> HTTPVersion {
    let start = range.lowerBound
    guard
      range.count == 8, bytes.equals(start..<start &+ 5, "HTTP/"), bytes[start &+ 6] == .period,
      let major = bytes[start &+ 5].decimalDigit, let minor = bytes[start &+ 7].decimalDigit
    else { throw .malformedRequestLine }
    guard major == 1 else { throw .unsupportedVersion }
    return minor == 0 ? .http10 : .http11
  }

  /// Finds the form of ``target`` and its parts (RFC 9112 §3.2). Dot segments and escapes stay as they are.
  private mutating func interpretTarget(in bytes: Span<UInt8>) throws(RequestError) {
    if method == .connect {
      // CONNECT requires the port (RFC 9112 §3.2.3).
      targetForm = .authority
      guard bytes.isAuthority(target, requiresPort: true) else { throw .malformedTarget }
      authority = target
      path = target.upperBound..<target.upperBound
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

  /// Interprets an `http` or `https` URI (RFC 9112 §3.2.2). Userinfo makes a host look like another (RFC 9110 §4.2.4).
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
    while end < target.upperBound, ![.slash, .questionMark, .numberSign].contains(bytes[end]) { end &+= 1 }
    guard bytes.isAuthority(start..<end) else { throw .malformedHost }
    authority = start..<end
    try interpretPathAndQuery(end..<target.upperBound, in: bytes)
  }

  /// Interprets `path-abempty [ "?" query ]`. Every escape in it must be complete and not a NUL. Bytes beyond ASCII
  /// pass: they end no part of a message, so the connection can go on after the route has refused them.
  private mutating func interpretPathAndQuery(_ range: Range<Int>, in bytes: Span<UInt8>) throws(RequestError) {
    var allowed = ByteSet.path
    path = range
    var index = range.lowerBound
    while index < range.upperBound {
      let byte = bytes[index]
      if byte == .percentSign {
        guard let escaped = bytes.percentEncodedByte(at: index, before: range.upperBound) else {
          throw .malformedPercentEncoding
        }
        guard escaped != 0 else { throw .encodedNUL }
        index &+= 3
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
}

// Of the lines, because a call of the whole head copies it.
extension [FieldLine] {
  /// Returns the place of a field's value in the parsed buffer, whatever the case of the received name. Allocates nothing.
  public func value(of lowercaseName: StaticString, in bytes: Span<UInt8>) -> FieldOccurrence<Range<Int>> {
    var value = FieldOccurrence<Range<Int>>.absent
    for line in self where bytes.equalsIgnoringCase(line.name, lowercaseName) {
      guard value == .absent else { return .repeated }
      value = .single(line.value)
    }
    return value
  }
}

extension Span<UInt8> {
  fileprivate func isSchemeOfHTTP(_ range: Range<Int>) -> Bool {
    equalsIgnoringCase(range, "http") || equalsIgnoringCase(range, "https")
  }

  /// Returns whether the bytes in `range` are `uri-host [ ":" port ]` (RFC 9110 §7.2), as in Host and in request targets.
  ///
  /// The host is a `reg-name`, which includes IPv4 addresses, or an IPv6 address in brackets, and never empty. Userinfo, a
  /// zone and `IPvFuture`, of which no version is defined, are refused. A port has up to five digits and is at most 65535.
  /// It may be empty after the colon (RFC 3986 §3.2.3), unless the port is required.
  func isAuthority(_ range: Range<Int>, requiresPort: Bool = false) -> Bool {
    guard let hostEnd = hostEnd(in: range) else { return false }
    guard hostEnd < range.upperBound else { return !requiresPort }
    guard self[hostEnd] == .colon else { return false }
    let digits = hostEnd &+ 1..<range.upperBound
    guard !digits.isEmpty else { return !requiresPort }
    return digits.count <= 5 && (decimal(in: digits) ?? .max) <= 65535
  }

  private func hostEnd(in range: Range<Int>) -> Int? {
    guard let first = range.first else { return nil }
    guard self[first] == .leftBracket else { return registeredNameEnd(in: range) }
    guard let bracket = firstIndex(of: .rightBracket, in: range) else { return nil }
    return extracting(first &+ 1..<bracket).ipv6Address == nil ? nil : bracket &+ 1
  }

  /// Returns the end of the `reg-name` at the start of `range` (RFC 3986 §3.2.2), the colon or the end; nil if empty.
  private func registeredNameEnd(in range: Range<Int>) -> Int? {
    var index = range.lowerBound
    while index < range.upperBound, self[index] != .colon {
      guard ByteSet.registeredName.contains(self[index]) else { return nil }
      if self[index] == .percentSign {
        guard let byte = percentEncodedByte(at: index, before: range.upperBound), byte != 0 else { return nil }
        index &+= 2
      }
      index &+= 1
    }
    return index > range.lowerBound ? index : nil
  }
}

/// The supported protocol versions.
public enum HTTPVersion: Sendable, Equatable {
  case http10
  /// HTTP/1.1. A higher minor version counts as HTTP/1.1 (RFC 9110 §2.5).
  case http11
}

/// The way in which the length of a message's content is determined (RFC 9112 §6.3).
public enum MessageFraming: Sendable, Equatable {
  case none
  /// Content-Length: this number of bytes, possibly zero.
  case fixed(Int)
  case chunked
  /// The content of a response ends with the connection.
  case untilClose
}

/// The fields in which a proxy describes the request that it forwards. A client can write them too, so they count only
/// if the peer is trusted. The parser records them, so that a request without them costs no lookup.
public struct ForwardingFields: OptionSet, Sendable, Equatable {
  /// The bits of the set.
  public let rawValue: UInt8
  /// Creates a set from its bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// `Forwarded` (RFC 7239).
  public static let forwarded = ForwardingFields(rawValue: 1)
  /// `X-Forwarded-For`.
  public static let forwardedFor = ForwardingFields(rawValue: 2)
  /// `X-Request-ID`.
  public static let requestID = ForwardingFields(rawValue: 4)
}
