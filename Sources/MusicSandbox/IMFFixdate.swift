import HTTP1

/// Times as `Date` has them (RFC 9110 §5.6.7).
enum IMFFixdate {
  /// A time in seconds since 1970.
  static func text(_ seconds: Int) -> String {
    var bytes: [UInt8] = []
    HTTPDate(secondsSinceEpoch: seconds).append(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }
}
