/// A MusicKit private key: an EC P-256 key from Apple, which has signed and verified a probe.
///
/// It holds the only copy of the key, inside OpenSSL; descriptions and mirrors show the key ID alone.
public final class SigningKey: Sendable {
  /// The identifier that goes into the `kid` of every token.
  public let keyID: KeyID
  /// The public half as PEM (`SubjectPublicKeyInfo`), free to be shown.
  public let publicKeyPEM: String
  /// The public half, to verify tokens with.
  public let verificationKey: VerificationKey
  /// What the operator should know about the key's file, to be logged.
  public let findings: [Finding]
  private let privateKey: PrivateKey

  /// A key from its text, in any of the forms in which a `.p8` gets pasted (see `KeyText`).
  ///
  /// - Throws: `SigningKeyError`, which names what the text is instead.
  public convenience init(parsing text: SecretBytes, keyID: KeyID) throws(SigningKeyError) {
    try self.init(parsing: text, keyID: keyID, findings: [])
  }

  convenience init(parsing text: SecretBytes, keyID: KeyID, findings: [Finding]) throws(SigningKeyError) {
    try self.init(KeyDER.privateKey(KeyText.der(from: text)), keyID: keyID, findings: findings)
  }

  /// A fresh random key, for demonstrations and tests: Apple knows nothing of it.
  ///
  /// - Throws: `SigningKeyError` if OpenSSL fails.
  public static func generate(keyID: KeyID) throws(SigningKeyError) -> SigningKey {
    let key: PrivateKey
    do { key = try PrivateKey.generate() } catch { throw .init(.cryptography(error)) }
    return try SigningKey(key, keyID: keyID, findings: [])
  }

  private init(_ key: PrivateKey, keyID: KeyID, findings: [Finding]) throws(SigningKeyError) {
    self.keyID = keyID
    self.findings = findings
    privateKey = key
    verificationKey = key.verificationKey(keyID: keyID)
    do {
      publicKeyPEM = try key.publicKeyPEM()
      try Self.probe(key, verificationKey)
    } catch let error as CryptographyError {
      throw .init(.cryptography(error))
    } catch {
      throw .init(.probeFailed)
    }
  }

  /// Makes a signer, which only one thread at a time may use.
  ///
  /// - Throws: `CryptographyError` if OpenSSL fails.
  public func makeSigner() throws(CryptographyError) -> Signer { try Signer(privateKey) }

  /// Signs and verifies once, so that a key whose halves do not belong together is found now and not by Apple.
  private static func probe(_ key: PrivateKey, _ verificationKey: VerificationKey) throws {
    let probe = Array("A probe of the signing key.".utf8)
    let signature = try Signer(key).signature(of: probe.span)
    guard verificationKey.verifies(signature, of: probe.span) else { throw ProbeFailure() }
  }

  private struct ProbeFailure: Error {}
}

extension SigningKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// The key ID and nothing else.
  public var description: String { "SigningKey(\(keyID))" }
  /// The key ID and nothing else.
  public var debugDescription: String { description }
  /// A mirror with the key ID and nothing else.
  public var customMirror: Mirror { Mirror(self, children: ["keyID": keyID]) }
}
