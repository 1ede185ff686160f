import Bytes

/// The content of a request head: properties, and ranges of the received bytes. It stores no bytes itself.
///
/// All ranges are relative to the start of the buffer passed to ``RequestHeadParser/parse(_:)``.
public struct RequestHead: Sendable, Equatable {
  /// The method, by name if it is known.
  public internal(set) var method = Method.other
  /// The bytes of the method: a token, case-sensitive.
  public internal(set) var methodRange = 0..<0
  /// The bytes of the request target as received.
  public internal(set) var target = 0..<0
  /// The form of the request target.
  public internal(set) var targetForm = TargetForm.origin
  /// The path, still percent-encoded.
  ///
  /// It begins with `/` in origin-form and is `*` in asterisk-form. In authority-form it is empty. In absolute-form it
  /// is the part after the authority. If that part is empty, it means `/` (RFC 9110 §4.2.3), or `*` for OPTIONS without
  /// a query (RFC 9112 §3.2.4).
  public internal(set) var path = 0..<0
  /// The query without its `?`, still percent-encoded. Nil if there is no `?`.
  public internal(set) var query: Range<Int>?
  /// Host and optional port: from the target in absolute-form and authority-form (RFC 9112 §3.2.2), otherwise from
  /// Host. Empty only in HTTP/1.0 without Host.
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
  /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). Always false in HTTP/1.0
  /// and without a body.
  public internal(set) var expectsContinue = false
  /// The forwarding fields that are present. Proxies write them, but any client can send them too.
  public internal(set) var forwarding: ForwardingFields = []
  /// Whether there is a `traceparent`. The parser records it, so that a request without it costs no lookup.
  public internal(set) var hasTraceParent = false
  /// Whether there is a music user token: `Music-User-Token`, or `Media-User-Token`, the older name. The parser records
  /// it, so that a request without it costs no lookup.
  public internal(set) var hasUserToken = false

  /// Clears every range except the lines of one field; nil for none. Returns a copy of the bytes of these lines, which the
  /// ranges then refer to.
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

  /// Clears every range of a head that was refused, and has these lines of one field instead. Returns the bytes of the
  /// lines, which the ranges refer to.
  package mutating func forget(keeping lowercaseName: StaticString, _ values: [[UInt8]]) -> [UInt8] {
    var kept: [UInt8] = []
    (methodRange, target, path, query, authority) = (0..<0, 0..<0, 0..<0, nil, 0..<0)
    // They describe fields that are gone.
    (forwarding, hasTraceParent, hasUserToken) = ([], false, false)
    fields = values.map { value in
      let start = kept.count
      kept.append(lowercaseName)
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
}

extension RequestHead {
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
}

// Of the lines, because a call of the whole head copies it.
extension [FieldLine] {
  /// Returns the value of a field that may occur at most once; an attack may repeat it. Allocates nothing.
  ///
  /// - Parameters:
  ///   - lowercaseName: The name in lower case. The comparison ignores the case of the received name.
  ///   - bytes: The buffer that was parsed.
  public func value(of lowercaseName: StaticString, in bytes: Span<UInt8>) -> FieldLines.Occurrence {
    var value = FieldLines.Occurrence.absent
    for line in self where bytes.equalsIgnoringCase(line.name, lowercaseName) {
      guard value == .absent else { return .repeated }
      value = .single(line.value)
    }
    return value
  }
}

extension RequestHead {
  /// The methods of RFC 9110 §9.3 and PATCH (RFC 5789).
  public enum Method: Sendable, Equatable {
    case get, head, post, put, delete, connect, options, trace, patch
    case other

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
}

/// The supported protocol versions.
public enum HTTPVersion: Sendable, Equatable {
  case http10
  /// HTTP/1.1. A higher minor version counts as HTTP/1.1 (RFC 9110 §2.5).
  case http11
}

/// The way in which the length of a message body is determined (RFC 9112 §6.3).
public enum MessageFraming: Sendable, Equatable {
  case none
  /// Content-Length: this number of bytes, possibly zero.
  case fixed(Int)
  case chunked
}

/// The fields in which a proxy describes the request that it forwards. A client can write them too, so they count only
/// if the peer is trusted.
///
/// The parser records them while it reads a head, so that a request without them costs no lookup.
public struct ForwardingFields: OptionSet, Sendable, Equatable {
  /// The bits of the set.
  public let rawValue: UInt8

  /// Creates a set from its bits.
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
