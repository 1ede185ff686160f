extension RequestHead {
  /// Reads `method SP request-target SP HTTP-version` (RFC 9112 §3).
  ///
  /// - Parameters:
  ///   - line: The line without its CRLF. It holds no control character, and its method is a token.
  ///   - methodEnd: Where the first space stands.
  ///   - bytes: The received bytes.
  mutating func interpretRequestLine(
    _ line: Range<Int>, methodEnd: Int, in bytes: Span<UInt8>
  ) throws(RequestError) {
    methodRange = line.lowerBound..<methodEnd
    method = Method(methodRange, in: bytes)
    let rest = methodEnd &+ 1..<line.upperBound
    guard let space = bytes.firstIndex(of: .space, in: rest) else { throw .malformedRequestLine }
    target = rest.lowerBound..<space
    version = try Self.version(space &+ 1..<line.upperBound, in: bytes)
    guard !target.isEmpty else { throw .malformedRequestLine }
    try interpretTarget(in: bytes)
  }

  /// Reads `"HTTP/" DIGIT "." DIGIT`, case-sensitive (RFC 9112 §2.3). Only major version 1 is served; of its minor
  /// versions, those above 1 count as 1 (RFC 9110 §2.5).
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
