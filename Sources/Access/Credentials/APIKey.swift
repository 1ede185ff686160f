import COpenSSL
public import DeveloperToken

/// A fresh API key: see ``APIKeyForm`` for what it looks like.
public struct APIKey: Sendable {
  private let text: SecretBytes
  /// What the configuration has of it.
  public let digest: APIKeyDigest

  /// Makes one of 256 random bits from OpenSSL's generator for secrets.
  ///
  /// - Throws: `CryptographyError` if there are no random numbers.
  public static func generate() throws(CryptographyError) -> APIKey {
    let body = try SecretBytes(capacity: APIKeyForm.prefix.count + APIKeyForm.randomCount) {
      (output: inout OutputSpan<UInt8>) throws(CryptographyError) in
      for character in APIKeyForm.prefix { output.append(character) }
      while output.freeCapacity > 0 { try appendRandom(to: &output) }
    }
    return try APIKey(body)
  }

  private init(_ body: SecretBytes) throws(CryptographyError) {
    text = SecretBytes(capacity: body.count + APIKeyForm.checksumCount) { output in
      body.withBytes { body in
        for index in body.indices { output.append(body[index]) }
        for character in APIKeyForm.checksum(of: body) { output.append(character) }
      }
    }
    digest = try text.withBytes { (text) throws(CryptographyError) in try APIKeyDigest(of: text) }
  }

  /// Appends a character, or none: 248 is the last multiple of 62 in a byte, and what is above would make the first
  /// eight characters likelier than the others.
  private static func appendRandom(to output: inout OutputSpan<UInt8>) throws(CryptographyError) {
    var byte: UInt8 = 0
    guard unsafe RAND_priv_bytes(&byte, 1) == 1 else {
      throw CryptographyError(function: "RAND_priv_bytes")
    }
    if byte < 248 { output.append(APIKeyForm.alphabet[Int(byte % 62)]) }
  }

  /// Lends the key's characters, which are ASCII, to `body`.
  public func withBytes<Result, E: Error>(_ body: (Span<UInt8>) throws(E) -> Result) throws(E) -> Result {
    try text.withBytes(body)
  }
}

extension APIKey: CustomStringConvertible, CustomReflectable {
  /// Not the key.
  public var description: String { "APIKey(sha256: \(digest))" }
  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
