public import HTTPMessages

/// A web origin, or a pattern for all hosts with one more label in front: `https://*.preview.example.com`. The star
/// stands for exactly one label, as in certificates (RFC 9525 §6.3), so not for `a.b` here. Only this server uses the
/// pattern: a token always contains one of the concrete origins.
public enum OriginPattern: Sendable, Hashable, CustomStringConvertible {
  case exact(Origin)
  /// All origins that differ only in the first label of the host: `https://*.preview.example.com:8443`.
  case anyLabel(String)

  /// Parses a pattern as an operator writes it.
  public init(_ text: String) throws(OriginPatternError) {
    guard text.contains("*") else {
      do throws(OriginError) { self = .exact(try Origin(text)) } catch { throw .notAnOrigin(error) }
      return
    }
    guard !["*", "https://*", "http://*"].contains(text) else { throw .everyOrigin }
    let parts = text.split(separator: "*", omittingEmptySubsequences: false)
    guard parts.count == 2, parts[0].hasSuffix("://"), parts[1].hasPrefix(".") else { throw .misplacedStar }
    // With a label instead of the star, the text must be an origin. Parsing it also normalises it.
    let sample: Origin
    do throws(OriginError) { sample = try Origin("\(parts[0])a\(parts[1])") } catch { throw .notAnOrigin(error) }
    guard sample.host.split(separator: ".").count > 2 else { throw .wholeDomain }
    guard let pattern = Self.pattern(of: sample) else { throw .misplacedStar }
    self = .anyLabel(pattern)
  }

  /// Returns the only pattern with a star that can match `origin`; nil if its host has a single label or is an address.
  static func pattern(of origin: Origin) -> String? {
    let host = origin.host
    guard !host.hasPrefix("["), let dot = host.firstIndex(of: "."), host.startIndex < dot else { return nil }
    return "\(origin.description[..<host.startIndex])*\(origin.description[dot...])"
  }

  /// Whether pages of the origins come over a network without encryption.
  public var isPlain: Bool {
    switch self {
    case .exact(let origin): !origin.isSecure && !origin.isLoopback
    case .anyLabel(let pattern): pattern.hasPrefix("http://")
    }
  }

  /// The pattern as in the settings.
  public var description: String {
    switch self {
    case .exact(let origin): origin.description
    case .anyLabel(let pattern): pattern
    }
  }
}

/// The reason why a text is not a pattern of origins.
public enum OriginPatternError: Error, Equatable, CustomStringConvertible {
  case notAnOrigin(OriginError)
  case misplacedStar
  /// The star stands for all origins: `*`, `https://*`.
  case everyOrigin
  /// The star precedes a single label, so the pattern would match sites of strangers: `https://*.com`.
  case wholeDomain

  /// One sentence for the operator.
  public var description: String {
    switch self {
    case .notAnOrigin(let error): "\(error)"
    case .misplacedStar:
      "A star may only stand for the whole first label of the host, once: \"https://*.preview.example.com\"."
    case .everyOrigin:
      "A star alone would give pages of every site your team's tokens and quota. Name each origin, such as "
        + "\"https://app.example.com\", or a star before your domain, such as \"https://*.preview.example.com\". "
        + "Callers that are not web pages need an apiKey instead."
    case .wholeDomain: "The star needs a domain of at least two labels behind it, such as *.example.com."
    }
  }
}
