import Bytes
public import HTTP1
public import HTTPTypes

/// An upstream response to a `GET`, without its content. An object, because what is derived from it keeps it.
public final class ReceivedResponse: Sendable {
  let status: HTTPResponse.Status
  /// The fields for callers, and those by which the cache judges the response, now and when a 304 renews it.
  let fields: FieldLines
  /// The value of `Date` in seconds since the epoch; nil without a valid one.
  let date: Int?
  /// The fields of the upstream request, without the credential, by which `Vary` selects.
  let sent: FieldLines
  let requestedAt: CacheTime
  let receivedAt: CacheTime

  /// Creates a response with the fields that the header policy lets pass, and those by which the cache judges it. `date`: the
  /// value of `Date`, if it was read before.
  public init(
    status: HTTPResponse.Status, fields: FieldLines, date: Int? = nil, sent: FieldLines = [:], requestedAt: CacheTime,
    receivedAt: CacheTime
  ) {
    (self.status, self.fields, self.sent) = (status, fields, sent)
    self.date = date ?? FieldDate.seconds(ofOnly: "date", in: fields, now: receivedAt.wall)
    (self.requestedAt, self.receivedAt) = (requestedAt, receivedAt)
  }

  /// Returns whether the cache judges a response by this field, and sends it to no caller: either not at all, or with a
  /// value of its own. It also judges by fields that callers get.
  public static func isForCacheOnly(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    switch name.count {
    case 3: bytes.equalsIgnoringCase(name, "age")
    case 4: bytes.equalsIgnoringCase(name, "date") || bytes.equalsIgnoringCase(name, "vary")
    case 7: bytes.equalsIgnoringCase(name, "expires")
    case 10: bytes.equalsIgnoringCase(name, "set-cookie")
    case 13: bytes.equalsIgnoringCase(name, "cache-control") || bytes.equalsIgnoringCase(name, "content-range")
    default: false
    }
  }

  /// Returns this response with the metadata of a 304 that confirms it (RFC 9111 §3.2). The fields that describe the content
  /// stay. Age and Date come only from the 304: the old values would make the response seem older than it is.
  func updated(by notModified: ReceivedResponse) -> ReceivedResponse {
    ReceivedResponse(
      status: status, fields: fields.updated(from: notModified.fields), sent: sent,
      requestedAt: notModified.requestedAt, receivedAt: notModified.receivedAt)
  }
}

extension FieldLines {
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
