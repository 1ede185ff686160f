/// What answers say about caching. Whether Apple's say anything is not known, so either can be had.
public enum CacheFields: String, Sendable, CaseIterable {
  /// An `ETag`, which `If-None-Match` is answered with 304 by.
  case etag
  /// `Cache-Control` with `max-age`.
  case maxAge = "max-age"
  /// Both.
  case both
  /// Nothing.
  case none
  /// Each of these somewhere: storefronts and languages have both, albums and songs an `ETag`, artists, genres and
  /// playlists a `max-age`, and all else, such as searches and charts, nothing.
  case mixed

  /// Seconds that an answer stays fresh for, where it says so.
  static let maximumAge = 300

  /// What holds for a path.
  func resolved(_ segments: ArraySlice<String>) -> CacheFields {
    guard self == .mixed else { return self }
    switch segments.first {
    case "storefronts", "language": return .both
    case "catalog": break
    default: return .none
    }
    switch segments.dropFirst(2).first {
    case "albums", "songs": return .etag
    case "artists", "genres", "playlists": return .maxAge
    default: return .none
    }
  }

  /// Adds the fields.
  ///
  /// - Parameter isWeak: Whether one tag stands for several encodings of the content (RFC 9110 §8.8.1).
  func mark(_ answer: inout SandboxAnswer, isWeak: Bool) {
    if self == .maxAge || self == .both {
      answer.fields.append(SandboxField("Cache-Control", "max-age=\(Self.maximumAge)"))
    }
    guard self == .etag || self == .both else { return }
    let tag = "\"\(String(Numbers.hash(answer.content), radix: 16))\""
    answer.fields.append(SandboxField("ETag", isWeak ? "W/\(tag)" : tag))
  }

  /// Turns an answer into a 304 if the request has it already (RFC 9110 §13.1.2).
  static func leaveOut(_ answer: inout SandboxAnswer, knownTo request: SandboxRequest) {
    guard let tag = answer.fields.single("etag") else { return }
    let known = request.fields.values(of: "if-none-match").joined(separator: ",").split(separator: ",")
    let isKnown = known.contains { value in
      let value = value.drop { $0 == " " }.prefix { $0 != " " }
      return value == "*" || opaque(value) == opaque(tag[...])
    }
    guard isKnown else { return }
    answer.status = 304
    answer.content = []
    answer.fields.removeAll { $0.name == "Content-Type" }
  }

  /// What is compared weakly (RFC 9110 §8.8.3.2).
  private static func opaque(_ tag: Substring) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag }
}
