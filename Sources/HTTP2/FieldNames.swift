import HTTPTypes

/// The names of fields that are common in HTTP/2, made once: those longer than 15 bytes would each cost an allocation.
enum FieldNames {
  /// The name that `bytes` spell, if they are a token in lower case (RFC 9113 §8.2.1).
  static func name(_ bytes: UnsafeBufferPointer<UInt8>) -> HTTPField.Name? {
    for name in unsafe table[bucket(of: bytes.count, bytes.first, bytes.last)]
    where unsafe name.canonicalName.utf8.elementsEqual(bytes) {
      return name
    }
    return HTTPField.Name(parsed: unsafe String(decoding: bytes, as: UTF8.self))
  }

  /// Names by length and outer letters: most are alone in theirs.
  private static let table: [[HTTPField.Name]] = {
    var table = Array(repeating: [HTTPField.Name](), count: 256)
    for text in common {
      guard let name = HTTPField.Name(parsed: text) else { continue }
      table[bucket(of: text.utf8.count, text.utf8.first, text.utf8.last)].append(name)
    }
    return table
  }()

  private static func bucket(of count: Int, _ first: UInt8?, _ last: UInt8?) -> Int {
    (count &* 11 &+ Int(first ?? 0) &* 3 &+ Int(last ?? 0)) & 0xff
  }

  /// What requests and responses bear that pass through here; a name that is missing costs time, nothing else.
  private static let common = [
    "accept", "accept-charset", "accept-encoding", "accept-language", "accept-ranges", "access-control-allow-headers",
    "access-control-allow-methods", "access-control-allow-origin", "access-control-expose-headers",
    "access-control-max-age", "access-control-request-headers", "access-control-request-method", "age", "allow",
    "alt-svc", "authorization", "cache-control", "cdnuuid", "content-disposition", "content-encoding",
    "content-language", "content-length", "content-location", "content-range", "content-security-policy",
    "content-type", "cookie", "date", "etag", "expect", "expires", "forwarded", "from", "host", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "last-modified", "link", "location",
    "max-forwards", "media-user-token", "music-user-token", "origin", "pragma", "priority", "proxy-authenticate",
    "proxy-authorization", "range", "referer", "retry-after", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform",
    "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user", "server", "server-timing", "set-cookie",
    "strict-transport-security", "te", "trailer", "traceparent", "tracestate", "upgrade-insecure-requests",
    "user-agent", "vary", "via", "www-authenticate", "x-api-key", "x-apple-application-instance",
    "x-apple-application-site", "x-apple-jingle-correlation-key", "x-apple-orig-url", "x-apple-request-uuid",
    "x-cache", "x-cache-remote", "x-content-type-options", "x-forwarded-for", "x-forwarded-proto", "x-frame-options",
    "x-limit-policy", "x-rate-limit-policy", "x-request-id", "x-responding-instance", "x-xss-protection",
  ]
}
