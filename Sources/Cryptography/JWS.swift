import Bytes
public import JSON

/// A JSON Web Signature in compact serialization (RFC 7515 §7.1): decoded, but not verified.
public struct JWS: Sendable {
  /// The most bytes of a compact serialization.
  public static let limit = 16_384

  /// The bytes that the signature covers: the first two parts and the dot between them.
  public let signingInput: [UInt8]
  /// The decoded protected header, which should be JSON.
  public let headerBytes: [UInt8]
  /// The decoded payload.
  public let payload: [UInt8]
  /// The decoded signature.
  public let signature: [UInt8]

  /// Splits and decodes a compact serialization without white space, padding or prefix.
  public init(compact: Span<UInt8>) throws(JWSError) {
    guard compact.count <= Self.limit else { throw .tooLong(limit: Self.limit) }
    let dots = compact.indices.filter { compact[$0] == UInt8(ascii: ".") }
    guard dots.count == 2 else { throw .parts(dots.count + 1) }
    headerBytes = try Self.decode(compact.extracting(..<dots[0]), .header)
    payload = try Self.decode(compact.extracting((dots[0] + 1)..<dots[1]), .claims)
    signature = try Self.decode(compact.extracting((dots[1] + 1)...), .signature)
    signingInput = (0..<dots[1]).map { compact[$0] }
  }

  /// The header as a JSON object; nil if it is not an object.
  public var header: JSONValue? {
    guard let value = JSONReader.read(headerBytes), value.isObject else { return nil }
    return value
  }

  private static func decode(_ text: Span<UInt8>, _ part: JWSError.Part) throws(JWSError) -> [UInt8] {
    guard let bytes = Base64.decodeURL(text) else {
      throw .notBase64URL(part, hasPadding: text.contains(UInt8(ascii: "=")))
    }
    return bytes
  }
}

/// The reason why a text is not a JWS in compact serialization.
public enum JWSError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The three parts of a token.
  public enum Part: String, Sendable {
    case header, claims, signature
  }

  case tooLong(limit: Int)
  case parts(Int)
  /// A part is not base64url as RFC 7515 §2 defines it.
  case notBase64URL(Part, hasPadding: Bool)

  /// One sentence for the operator or the caller.
  public var description: String {
    switch self {
    case .tooLong(let limit): "It is longer than \(limit) bytes, and no developer token is that long."
    case .parts(let count): "It has \(count) part\(count == 1 ? "" : "s") between dots; a token has three."
    case .notBase64URL(let part, hasPadding: true):
      "The \(part.rawValue) part is padded with “=”; base64url in a token has no padding."
    case .notBase64URL(let part, hasPadding: false):
      "The \(part.rawValue) part is not base64url: it has a character outside A–Z a–z 0–9 - _, or is cut off."
    }
  }
}
