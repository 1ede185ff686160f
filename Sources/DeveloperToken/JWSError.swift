/// Why a text is not a JWS in compact serialization.
public enum JWSError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The three parts, by what they are in a token.
  public enum Part: String, Sendable {
    case header, claims, signature
  }

  /// Longer than `limit` bytes.
  case tooLong(limit: Int)
  /// Another number of parts between dots than three.
  case parts(Int)
  /// A part that is not base64url as RFC 7515 §2 has it.
  case notBase64URL(Part, hasPadding: Bool)

  /// One sentence.
  public var description: String {
    switch self {
    case .tooLong(let limit): "It is longer than \(limit) bytes, which no developer token is."
    case .parts(let count): "It has \(count) part\(count == 1 ? "" : "s") between dots; a token has three."
    case .notBase64URL(let part, hasPadding: true):
      "The \(part.rawValue) part is padded with “=”; base64url in a token has no padding."
    case .notBase64URL(let part, hasPadding: false):
      "The \(part.rawValue) part is not base64url: it has a character outside A–Z a–z 0–9 - _, or is cut off."
    }
  }
}
