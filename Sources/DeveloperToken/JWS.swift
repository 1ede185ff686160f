public import JSON

/// A JSON Web Signature in compact serialization (RFC 7515 §7.1), taken apart and not yet believed.
public struct JWS: Sendable {
  /// Longest compact serialization that is looked at, in bytes.
  public static let limit = 16_384

  /// What the signature is over: the first two parts and the dot between them.
  public let signingInput: [UInt8]
  /// The decoded protected header, JSON.
  public let headerBytes: [UInt8]
  /// The decoded payload.
  public let payload: [UInt8]
  /// The decoded signature.
  public let signature: [UInt8]

  /// Splits and decodes; no white space, no padding, no prefix.
  ///
  /// - Throws: `JWSError` if it is not three parts of base64url or too long.
  public init(compact: Span<UInt8>) throws(JWSError) {
    guard compact.count <= Self.limit else { throw .tooLong(limit: Self.limit) }
    let dots = compact.indices.filter { compact[$0] == UInt8(ascii: ".") }
    guard dots.count == 2 else { throw .parts(dots.count + 1) }
    headerBytes = try Self.decode(compact.extracting(..<dots[0]), .header)
    payload = try Self.decode(compact.extracting((dots[0] + 1)..<dots[1]), .claims)
    signature = try Self.decode(compact.extracting((dots[1] + 1)...), .signature)
    signingInput = (0..<dots[1]).map { compact[$0] }
  }

  /// The header as an object; nil if it is not a JSON object.
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
