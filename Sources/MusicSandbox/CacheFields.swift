import Bytes
import HTTPTypes

/// The caching fields of responses. Apple's behaviour is unknown, so a test can select any.
package enum CacheFields: String, Sendable {
  /// An `ETag`; the emulator answers a matching `If-None-Match` with 304.
  case etag
  /// `Cache-Control` with `max-age`.
  case maxAge = "max-age"
  case both, none
  /// A mixture: storefronts and languages have both fields, albums and songs an `ETag`, artists, genres and playlists a
  /// `max-age`, and all other responses, such as searches and charts, none.
  case mixed

  func resolved(_ segments: [String]) -> CacheFields {
    guard self == .mixed else { return self }
    switch (segments.first, segments.dropFirst(2).first) {
    case ("storefronts", _), ("language", _): return .both
    case ("catalog", "albums"), ("catalog", "songs"): return .etag
    case ("catalog", "artists"), ("catalog", "genres"), ("catalog", "playlists"): return .maxAge
    default: return .none
    }
  }

  func mark(_ response: inout SandboxResponse) {
    if self == .maxAge || self == .both { response.fields[.cacheControl] = "max-age=300" }
    guard self == .etag || self == .both else { return }
    response.fields[.eTag] = "\"\(String(UInt64(fnv1a: response.content), radix: 16))\""
  }

  /// Turns a response into a 304 if the request names its tag (RFC 9110 §13.1.2).
  static func leaveOut(_ response: inout SandboxResponse, knownTo request: SandboxRequest) {
    guard let tag = response.fields[.eTag] else { return }
    let known = request.fields.plain(.ifNoneMatch).joined(separator: ",").split(separator: ",")
    let isKnown = known.contains { value in
      let value = value.drop { $0 == " " }.prefix { $0 != " " }
      // The comparison is weak (RFC 9110 §8.8.3.2), and the emulator's own tags are strong.
      return value == "*" || (value.hasPrefix("W/") ? value.dropFirst(2) : value) == tag
    }
    guard isKnown else { return }
    (response.status, response.content) = (304, [])
    response.fields[.contentType] = nil
  }
}
