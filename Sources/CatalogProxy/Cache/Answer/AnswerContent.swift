import Bytes
import HTTPTypes

/// An answer's content in the codings that there are of it.
struct AnswerContent: Sendable {
  /// What may still become of it.
  enum Compression: Equatable {
    /// Worth trying.
    case possible
    /// Done, or in vain, or not for us to do.
    case settled
  }

  /// Decoded; as it came if it is coded by what we do not know.
  let identity: [UInt8]
  private(set) var gzip: [UInt8]?
  private(set) var compression: Compression
  /// The coding it came in: that one is what the origin's entity tag is for.
  let received: ContentCoding
  /// The value of Content-Encoding that we do not know.
  let unknownCoding: String?

  /// Below this the fields weigh more than what is saved.
  private static let leastCompressed = 1024

  init(_ received: ReceivedAnswer, directives: ResponseDirectives, limit: Int) throws(ContentCodingError) {
    let coding = received.fields[.contentEncoding].map { ByteString($0).lowercasedASCII }
    switch coding {
    case "gzip" where !received.body.isEmpty, "x-gzip" where !received.body.isEmpty:
      identity = try Gzip.inflate(received.body, limit: limit).withoutSpareCapacity
      gzip = received.body.withoutSpareCapacity
      self.received = .gzip
      unknownCoding = nil
    case nil, "identity", "gzip", "x-gzip", "":
      identity = received.body.withoutSpareCapacity
      self.received = .identity
      unknownCoding = nil
    default:
      identity = received.body.withoutSpareCapacity
      self.received = .identity
      unknownCoding = received.fields[.contentEncoding]
    }
    // A coding is a transformation (RFC 9110 §7.7). Undoing the coding that the proxy itself requested is not.
    let mayCompress = unknownCoding == nil && gzip == nil && !directives.noTransform
    let isWorthIt = identity.count >= Self.leastCompressed && Self.isText(received.fields[.contentType])
    compression = mayCompress && isWorthIt ? .possible : .settled
  }

  /// Whether callers get it in one coding or another.
  var isNegotiated: Bool { gzip != nil || compression == .possible }

  /// With gzip, if that makes it smaller.
  func compressed() -> AnswerContent {
    guard compression == .possible else { return self }
    var content = self
    content.gzip = Gzip.deflate(identity)?.withoutSpareCapacity
    content.compression = .settled
    return content
  }

  /// Bytes of all codings.
  var count: Int { identity.count + (gzip?.count ?? 0) }

  private static func isText(_ contentType: String?) -> Bool {
    guard let contentType else { return false }
    let name = ByteString(contentType).lowercasedASCII.bytes.prefix {
      $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ")
    }
    return name.elementsEqual("application/json".utf8) || name.suffix(5).elementsEqual("+json".utf8)
      || name.starts(with: "text/".utf8)
  }
}

extension [UInt8] {
  /// The same bytes, copied if the array has much spare capacity. Appending doubles the capacity, but the cache counts
  /// the bytes only.
  fileprivate var withoutSpareCapacity: [UInt8] {
    guard capacity - count > count / 16 + 64 else { return self }
    var exact: [UInt8] = []
    exact.reserveCapacity(count)
    exact.append(contentsOf: self)
    return exact
  }
}
