import Bytes

/// Scheme and authority of the upstream, to recognize them in a `Location`.
struct UpstreamOrigin: Sendable {
  private let scheme: ByteString
  /// The authority in lower case, with and without the default port.
  private let authorities: Set<ByteString>

  init(_ text: String) {
    guard let reference = Reference(text) else {
      (scheme, authorities) = (ByteString([]), [])
      return
    }
    scheme = reference.scheme
    let port = Array((scheme == "https" ? ":443" : ":80").utf8)
    let authority = reference.authority.bytes
    let hasPort = authority.suffix(port.count) == port[...]
    authorities = [
      reference.authority, ByteString(hasPort ? Array(authority.dropLast(port.count)) : authority + port),
    ]
  }

  /// Returns a `Location` (RFC 9110 §10.2.2) for the caller. A URI of the upstream becomes a path, so that a caller
  /// that follows it sends the request to this server, which has the token. Any other URI stays as it is.
  func localized(_ location: String) -> String {
    guard let reference = Reference(location), reference.scheme.bytes.isEmpty || reference.scheme == scheme,
      authorities.contains(reference.authority)
    else { return location }
    // `//host` would name another host (RFC 3986 §4.2), and browsers treat `\` as a slash.
    let rest = reference.rest
    guard rest.starts(with: "/".utf8), !rest.starts(with: "//".utf8), !rest.starts(with: "/\\".utf8) else {
      return location
    }
    return String(decoding: rest, as: UTF8.self)
  }
}

/// A URI with an authority, or a reference that lacks only the scheme (RFC 3986 §4.2). It is split by bytes, so that a
/// combining character after a slash does not hide the slash.
private struct Reference {
  /// The scheme in lower case; empty if the reference has none.
  let scheme: ByteString
  /// The authority in lower case.
  let authority: ByteString
  /// Path, query and fragment.
  let rest: ArraySlice<UInt8>

  /// Splits a reference. Returns nil if it has no authority.
  init?(_ text: String) {
    let bytes = Array(text.utf8)
    let slash = UInt8(ascii: "/")
    guard let first = bytes.firstIndex(of: slash), bytes[first...].starts(with: "//".utf8) else { return nil }
    let prefix = bytes[..<first]
    guard prefix.isEmpty || prefix.last == UInt8(ascii: ":") else { return nil }
    let after = bytes[(first + 2)...]
    let end = after.firstIndex { "/?#\\".utf8.contains($0) } ?? after.endIndex
    scheme = ByteString(Array(prefix.dropLast())).lowercasedASCII
    authority = ByteString(Array(after[..<end])).lowercasedASCII
    rest = after[end...]
  }
}
