import Bytes
import HTTPTypes
import Locks
import MusicCatalog

/// A cache of catalog responses. They depend only on the target and the host of the request, and creating one costs
/// more than the rest of the request.
final class MadeResponses: Sendable {
  /// The maximum size of all cached content in bytes. When it is exceeded, the cache drops all responses.
  private static let limit = 16 << 20

  private let state = Locked(State())

  private struct State {
    var responses: [ByteString: SandboxResponse] = [:]
    var size = 0
  }

  /// Returns the cached response to a request, or calls `make` and caches its result.
  ///
  /// - Parameters:
  ///   - base: The beginning of absolute URLs in the response.
  ///   - isShared: Whether the response depends only on the request; otherwise it is not cached.
  func respond(
    to request: SandboxRequest, base: String, isShared: Bool, _ make: () throws(AppleError) -> SandboxResponse
  ) throws(AppleError) -> SandboxResponse {
    guard isShared, request.method == "GET" || request.method == "HEAD" else { return try make() }
    let key = ByteString("\(request.target) \(base)")
    if let known = state.withLock({ $0.responses[key] }) { return known }
    let response = try make()
    let cost = key.count + response.content.count
    state.withLock { state in
      if state.size + cost > Self.limit { state = State() }
      if state.responses.updateValue(response, forKey: key) == nil { state.size += cost }
    }
    return response
  }
}

/// The caching fields of responses. Apple's behaviour is unknown, so a test can select any.
public enum CacheFields: String, Sendable {
  /// An `ETag`; the emulator answers a matching `If-None-Match` with 304.
  case etag
  /// `Cache-Control` with `max-age`.
  case maxAge = "max-age"
  /// Both fields.
  case both
  /// No caching fields.
  case none
  /// A mixture: storefronts and languages have both fields, albums and songs an `ETag`, artists, genres and playlists a
  /// `max-age`, and all other responses, such as searches and charts, none.
  case mixed

  /// Returns the fields for a path, which resolves `mixed`.
  func resolved(_ segments: ArraySlice<String>) -> CacheFields {
    guard self == .mixed else { return self }
    switch (segments.first, segments.dropFirst(2).first) {
    case ("storefronts", _), ("language", _): return .both
    case ("catalog", "albums"), ("catalog", "songs"): return .etag
    case ("catalog", "artists"), ("catalog", "genres"), ("catalog", "playlists"): return .maxAge
    default: return .none
    }
  }

  /// Adds the fields.
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
    response.status = 304
    response.content = []
    response.fields[.contentType] = nil
  }
}
