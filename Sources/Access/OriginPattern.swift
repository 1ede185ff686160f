public import HTTPMessages

/// A web origin, or all whose host has one label more at the front: `https://*.preview.example.com`.
///
/// The star stands for exactly one label, as in certificates (RFC 9525 §6.3), so it does not match
/// `a.b.preview.example.com`. Only this server uses the pattern: a token always contains one of the concrete origins.
public enum OriginPattern: Sendable, Hashable, CustomStringConvertible {
  /// One origin.
  case exact(Origin)
  /// Every origin that is this one with another first label in its host's place: `https://*.preview.example.com:8443`.
  case anyLabel(String)

  /// Reads a pattern as an operator writes it.
  ///
  /// - Throws: `OriginPatternError`, a sentence.
  public init(_ text: String) throws(OriginPatternError) {
    guard text.contains("*") else {
      do throws(OriginError) {
        self = .exact(try Origin(text))
        return
      } catch { throw .notAnOrigin(error) }
    }
    let parts = text.split(separator: "*", omittingEmptySubsequences: false)
    guard parts.count == 2, parts[0].hasSuffix("://"), parts[1].hasPrefix(".") else { throw .misplacedStar }
    // With a label in the star's place it must be an origin; whatever is normalised of it is normalised here.
    let sample: Origin
    do throws(OriginError) { sample = try Origin("\(parts[0])\(Self.sampleLabel)\(parts[1])") } catch {
      throw .notAnOrigin(error)
    }
    guard sample.host.split(separator: ".").count > 2 else { throw .wholeDomain }
    guard let pattern = Self.pattern(of: sample) else { throw .misplacedStar }
    self = .anyLabel(pattern)
  }

  private static let sampleLabel = "a"

  /// The one pattern with a star that `origin` can fall under; nil if its host has a single label or is an address.
  static func pattern(of origin: Origin) -> String? {
    let host = origin.host
    guard !host.hasPrefix("["), let dot = host.firstIndex(of: "."), host.startIndex < dot else { return nil }
    return "\(origin.description[..<host.startIndex])*\(origin.description[dot...])"
  }

  /// Whether `origin` is one of those that are meant.
  public func matches(_ origin: Origin) -> Bool {
    switch self {
    case .exact(let own): own == origin
    case .anyLabel(let pattern): Self.pattern(of: origin) == pattern
    }
  }

  /// As it stands in the settings.
  public var description: String {
    switch self {
    case .exact(let origin): origin.description
    case .anyLabel(let pattern): pattern
    }
  }
}

/// Why a text is no pattern of origins: a sentence for the operator.
public enum OriginPatternError: Error, Equatable, CustomStringConvertible {
  /// Without its star it would not be an origin.
  case notAnOrigin(OriginError)
  /// There is more than one star, or it is not the whole first label of the host.
  case misplacedStar
  /// The star stands before a single label, so that it would take in strangers: `https://*.com`.
  case wholeDomain

  /// The sentence.
  public var description: String {
    switch self {
    case .notAnOrigin(let error): "\(error)"
    case .misplacedStar:
      "A star may only stand for the whole first label of the host, once: \"https://*.preview.example.com\"."
    case .wholeDomain: "The star needs a domain of at least two labels behind it, such as *.example.com."
    }
  }
}

/// The web origins of a client.
public enum AllowedOrigins: Sendable, Equatable {
  /// Any `http` or `https` origin.
  case any
  /// Origins of this machine, `localhost` and loopback addresses, on any port.
  case loopback
  /// These.
  case only([OriginPattern])

  /// None.
  public static let none = AllowedOrigins.only([])

  /// Whether `origin` is one of them.
  public func allows(_ origin: Origin) -> Bool {
    switch self {
    case .any: true
    case .loopback: origin.isLoopback
    case .only(let patterns):
      patterns.contains(.exact(origin))
        || OriginPattern.pattern(of: origin).map { patterns.contains(.anyLabel($0)) } ?? false
    }
  }

  /// Whether there is a list of origins, so that a token without one would be worth more than any of those.
  public var isRestricted: Bool {
    switch self {
    case .any, .loopback: false
    case .only(let patterns): !patterns.isEmpty
    }
  }
}
