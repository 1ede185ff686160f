import Bytes
public import HTTP1
public import HTTPTypes

/// An upstream response to a `GET`, without its content. Immutable, and an object, because what is derived from it keeps
/// it.
public final class ReceivedResponse: Sendable {
  let status: HTTPResponse.Status
  /// The fields that decide whether, how long and for which callers the response is stored, now and when a 304 renews it.
  let fields: FieldLines
  /// The fields that the header policy forwards to callers. The cache replaces Age, Cache-Control, Content-Encoding,
  /// Date, ETag, Expires and Vary with its own.
  let downstream: FieldLines
  /// The fields of the upstream request, without the credential, by which `Vary` selects.
  let sent: FieldLines
  let requestedAt: CacheTime
  let receivedAt: CacheTime

  /// Creates a response with all its end-to-end fields, and those for callers.
  public init(
    status: HTTPResponse.Status, fields: FieldLines, downstream: FieldLines, sent: FieldLines = [:],
    requestedAt: CacheTime, receivedAt: CacheTime
  ) {
    (self.status, self.downstream, self.sent) = (status, downstream, sent)
    (self.requestedAt, self.receivedAt) = (requestedAt, receivedAt)
    let bytes = fields.bytes.span
    // A response that a 304 has renewed, or that another replica has stored, has no others.
    let isWhole = fields.lines.allSatisfy { Self.isJudged($0.name, in: bytes) }
    self.fields = isWhole ? fields : fields.filter(Self.isJudged)
  }

  private static func isJudged(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    func isNamed(_ other: StaticString) -> Bool { bytes.equalsIgnoringCase(name, other) }
    return switch name.count {
    case 3: isNamed("age")
    case 4: isNamed("date") || isNamed("etag") || isNamed("vary")
    case 7: isNamed("expires")
    case 10: isNamed("set-cookie")
    case 12: isNamed("content-type")
    case 13: isNamed("cache-control") || isNamed("content-range") || isNamed("last-modified")
    case 16: isNamed("content-encoding")
    default: false
    }
  }

  /// Returns this response with the metadata of a 304 that confirms it (RFC 9111 §3.2).
  ///
  /// The fields that describe the content stay, because the 304 has no content. Age and Date come only from the 304:
  /// the old values would make the response seem older than it is.
  func updated(by notModified: ReceivedResponse) -> ReceivedResponse {
    ReceivedResponse(
      status: status, fields: fields.updated(from: notModified.fields),
      downstream: downstream.updated(from: notModified.downstream), sent: sent,
      requestedAt: notModified.requestedAt, receivedAt: notModified.receivedAt)
  }
}

extension FieldLines {
  /// Returns these lines with those of a 304.
  fileprivate func updated(from newer: FieldLines) -> FieldLines {
    var fields = FieldLines()
    fields.reserveCapacity(count + newer.count, bytes: bytes.count + newer.bytes.count)
    let (own, theirs) = (bytes.span, newer.bytes.span)
    for line in lines {
      let isOfOneResponse = own.equalsIgnoringCase(line.name, "age") || own.equalsIgnoringCase(line.name, "date")
      guard Self.describesContent(line.name, in: own) || !isOfOneResponse && !newer.has(nameOf: line, of: self) else {
        continue
      }
      fields.append(line, of: self)
    }
    for line in newer.lines where !Self.describesContent(line.name, in: theirs) {
      fields.append(line, of: newer)
    }
    return fields
  }

  private static func describesContent(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    switch name.count {
    case 12: bytes.equalsIgnoringCase(name, "content-type")
    case 13: bytes.equalsIgnoringCase(name, "content-range")
    case 14: bytes.equalsIgnoringCase(name, "content-length")
    case 16: bytes.equalsIgnoringCase(name, "content-encoding")
    default: false
    }
  }
}
