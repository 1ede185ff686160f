import Bytes
public import HTTPTypes

/// What a request head says: facts, and ranges into the received bytes. It holds no bytes itself.
///
/// All ranges are relative to the start of the buffer that ``RequestHeadParser/parse(_:)`` was given.
public struct RequestHead: Sendable, Equatable {
  /// The method, known ones by name.
  public internal(set) var method = Method.other
  /// The bytes of the method: a token, case-sensitive.
  public internal(set) var methodRange = 0..<0
  /// The bytes of the request target as received.
  public internal(set) var target = 0..<0
  /// The form of the request target.
  public internal(set) var targetForm = TargetForm.origin
  /// The path, still percent-encoded.
  ///
  /// It begins with `/` in origin-form. In absolute-form it is the part behind the authority and may be empty, which
  /// means `/` (RFC 9110 §4.2.3), or for OPTIONS without a query what `*` means (RFC 9112 §3.2.4). It is `*` in
  /// asterisk-form and empty in authority-form.
  public internal(set) var path = 0..<0
  /// The query without its `?`, still percent-encoded; nil if there is no `?`.
  public internal(set) var query: Range<Int>?
  /// Host and optional port: of the target in absolute-form and authority-form (RFC 9112 §3.2.2), else of Host. Empty
  /// only in HTTP/1.0 without Host.
  public internal(set) var authority = 0..<0
  /// The version of the protocol.
  public internal(set) var version = HTTPVersion.http11
  /// The field lines, in the order received.
  public internal(set) var fields: [FieldLine] = []
  /// How the body is framed.
  public internal(set) var framing = MessageFraming.none
  /// Whether the client lets the connection go on after the response (RFC 9112 §9.3).
  public internal(set) var keepAlive = true
  /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). Never so in HTTP/1.0 or
  /// without a body.
  public internal(set) var expectsContinue = false
  /// Which of the fields are present that proxies write, but that any client can send as well.
  public internal(set) var forwarding: ForwardingFields = []

  /// Forgets every range, except for the lines of one field. Returns their bytes in memory of their own.
  mutating func forget(_ bytes: Span<UInt8>, except lowercaseName: StaticString?) -> [UInt8] {
    var kept: [UInt8] = []
    var lines: [FieldLine] = []
    for line in fields {
      guard let lowercaseName, isNamed(line, lowercaseName, in: bytes) else { continue }
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

  /// The bytes that ``fields`` take.
  public var storageBytes: Int { fields.capacity * MemoryLayout<FieldLine>.stride }

  /// Forgets everything but the storage of ``fields``.
  mutating func reset() {
    var storage: [FieldLine] = []
    swap(&storage, &fields)
    storage.removeAll(keepingCapacity: true)
    self = RequestHead()
    fields = storage
  }
}

extension RequestHead {
  /// The four forms of a request target (RFC 9112 §3.2).
  public enum TargetForm: Sendable, Equatable {
    /// `/path?query`.
    case origin
    /// `http://host/path?query`, or `https`.
    case absolute
    /// `host:port`, with CONNECT only.
    case authority
    /// `*`, with OPTIONS only.
    case asterisk
  }
}

extension RequestHead {
  /// The value of the first field with this name; nil if the field is absent. Allocates nothing.
  ///
  /// - Parameters:
  ///   - lowercaseName: The name in lower case; the comparison ignores the case of what was received.
  ///   - bytes: The buffer that was parsed.
  public func firstField(named lowercaseName: StaticString, in bytes: Span<UInt8>) -> Range<Int>? {
    for line in fields where bytes.equalsIgnoringCase(line.name, lowercaseName) { return line.value }
    return nil
  }

  /// The value of the first field with this name; nil if the field is absent.
  public func firstField(named name: HTTPField.Name, in bytes: Span<UInt8>) -> Range<Int>? {
    for line in fields where bytes.equalsIgnoringCase(line.name, name) { return line.value }
    return nil
  }

  /// Whether a field line bears this name, in lower case.
  public func isNamed(_ line: FieldLine, _ lowercaseName: StaticString, in bytes: Span<UInt8>) -> Bool {
    bytes.equalsIgnoringCase(line.name, lowercaseName)
  }

  /// How many field lines bear this name: more than one is how a field that may appear only once is abused.
  ///
  /// - Parameters:
  ///   - lowercaseName: The name in lower case.
  ///   - bytes: The buffer that was parsed.
  public func fieldCount(named lowercaseName: StaticString, in bytes: Span<UInt8>) -> Int {
    var count = 0
    for line in fields where bytes.equalsIgnoringCase(line.name, lowercaseName) { count += 1 }
    return count
  }
}

extension Span<UInt8> {
  /// Whether the bytes in `range` are `name`. The case of ASCII letters does not matter.
  fileprivate func equalsIgnoringCase(_ range: Range<Int>, _ name: HTTPField.Name) -> Bool {
    let expected = name.canonicalName.utf8
    guard range.count == expected.count else { return false }
    return zip(range, expected).allSatisfy { self[$0].lowercased == $1 }
  }
}

extension RequestHead {
  /// The methods of RFC 9110 §9.3 and PATCH (RFC 5789).
  public enum Method: Sendable, Equatable {
    case get, head, post, put, delete, connect, options, trace, patch
    /// Any other token.
    case other

    /// The method that the bytes in `range` spell, in upper case as they are registered.
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

  /// The method as `HTTPTypes` has it. Makes a string only for ``Method/other``; nil only if `bytes` are others than
  /// those that were parsed.
  ///
  /// - Parameter bytes: The buffer that was parsed.
  public func requestMethod(in bytes: Span<UInt8>) -> HTTPRequest.Method? {
    switch method {
    case .get: .get
    case .head: .head
    case .post: .post
    case .put: .put
    case .delete: .delete
    case .connect: .connect
    case .options: .options
    case .trace: .trace
    case .patch: .patch
    case .other: HTTPRequest.Method(rawValue: bytes.string(in: methodRange))
    }
  }
}

/// The protocol versions that this codec speaks.
public enum HTTPVersion: Sendable, Equatable {
  /// HTTP/1.0.
  case http10
  /// HTTP/1.1. A higher minor version counts as this one (RFC 9110 §2.5).
  case http11
}

/// How the length of a message body is determined (RFC 9112 §6.3).
public enum MessageFraming: Sendable, Equatable {
  /// There is no body.
  case none
  /// Content-Length: that many bytes, zero among them.
  case fixed(Int)
  /// Transfer-Encoding: chunked.
  case chunked
}

/// Fields by which a proxy describes the request that it forwards. A client can write them as well, so they count only
/// if the peer is trusted.
///
/// The parser notes them while it reads a head, so that a request without them costs no look-up.
public struct ForwardingFields: OptionSet, Sendable, Equatable {
  /// A set of bits.
  public let rawValue: UInt8

  /// A set of bits.
  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  /// `Forwarded` (RFC 7239).
  public static let forwarded = ForwardingFields(rawValue: 1)
  /// `X-Forwarded-For`.
  public static let forwardedFor = ForwardingFields(rawValue: 2)
  /// `X-Request-ID`.
  public static let requestID = ForwardingFields(rawValue: 4)
}
