import Bytes
public import Cryptography
import Glibc

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

extension SigningKey {
  /// A key from a file.
  ///
  /// The key ID is the one in a file name `AuthKey_<KEYID>.p8` unless one is given; if both are there and differ, one
  /// of them is wrong and tokens would be refused by Apple, so that is an error which names both. Symbolic links are
  /// followed, since that is how Kubernetes mounts secrets, and the name is that of the path as given.
  ///
  /// - Throws: `SigningKeyError`, which names the path and what is wrong.
  public static func load(file path: String, keyID: KeyID?) throws(SigningKeyError) -> SigningKey {
    do throws(SigningKeyError) {
      // Before its name, which is not at fault if nothing is there, or a folder.
      try KeyFile.checkPlace(path)
      let keyID = try Self.keyID(given: keyID, path: path)
      let file = try KeyFile.read(path)
      return try SigningKey(parsing: file.text, keyID: keyID, findings: file.findings)
    } catch {
      throw error.at(path)
    }
  }

  private static func keyID(given: KeyID?, path: String) throws(SigningKeyError) -> KeyID {
    let name = path.split(separator: "/").last ?? ""
    guard name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else {
      guard let given else { throw .init(.noKeyID) }
      return given
    }
    let text = String(name.dropFirst("AuthKey_".count).dropLast(".p8".count))
    guard let inFileName = try? KeyID(text) else {
      // The user chose a name like AuthKey_production.p8; it does not contradict the given key ID.
      guard let given else { throw .init(.badKeyIDInFileName(text)) }
      return given
    }
    guard let given, given != inFileName else { return inFileName }
    throw .init(.keyIDMismatch(given: given, inFileName: inFileName))
  }
}

/// Why a MusicKit private key cannot be used. Its description names what there is instead, and never holds key bytes.
public struct SigningKeyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The file that was read; nil if the key came as a setting.
  public let path: String?
  /// What is wrong.
  public let reason: Reason

  init(_ reason: Reason, path: String? = nil) {
    self.reason = reason
    self.path = path
  }

  func at(_ path: String) -> SigningKeyError { SigningKeyError(reason, path: path) }

  /// One or two sentences: what is wrong, and what would be right.
  public var description: String {
    let subject = path.map { "The key file \(Printable.quote(Printable.absolute($0), limit: 1024))" } ?? "The key"
    return "\(subject) \(reason.predicate)"
  }
}

extension SigningKeyError {
  /// What is wrong with a key.
  public enum Reason: Sendable, Hashable {
    /// The file cannot be opened or read; the `errno` says why.
    case unreadable(Int32)
    /// It begins with `~`, which a shell expands.
    case unexpandedHome
    /// It is a directory.
    case directory
    /// It is a device, a FIFO or a socket.
    case notRegularFile
    /// It is longer than any key (bytes).
    case tooLarge(limit: Int)
    /// Others than its owner can write to it; the permission bits.
    case writableByOthers(mode: UInt32)
    /// No key ID is given, and the file is not named `AuthKey_<KEYID>.p8`.
    case noKeyID
    /// The part of `AuthKey_<KEYID>.p8` that should be a key ID is not a valid one.
    case badKeyIDInFileName(String)
    /// The given key ID is not the one in the file name.
    case keyIDMismatch(given: KeyID, inFileName: KeyID)
    /// It is a thing that is no PKCS#8 P-256 private key.
    case wrongKind(KeyKind)
    /// It is a private key of another algorithm or curve.
    case wrongAlgorithm(String)
    /// It is a public key, and not an uncompressed one of P-256.
    case otherPublicKey
    /// It breaks off.
    case truncated
    /// It is a PKCS#8 private key that OpenSSL cannot read, or it has bytes after its end.
    case damaged
    /// It signs, and its own public half does not verify what it signed.
    case probeFailed
    /// OpenSSL could not work with it.
    case cryptography(CryptographyError)
  }
}

extension SigningKeyError.Reason {
  /// The sentence without its subject.
  var predicate: String {
    switch self {
    case .unreadable(let code): Self.unreadable(code)
    case .unexpandedHome:
      "has a path that begins with ~, which a shell expands and this program does not; write the path in full."
    case .directory: "is a directory; write the path of the AuthKey_<KEYID>.p8 file in it."
    case .notRegularFile: "is a device, FIFO or socket; it must be a regular file."
    case .tooLarge(let limit): "is larger than \(limit / 1024) KiB; a MusicKit key has about 260 bytes."
    case .writableByOthers(let mode):
      "can be written by others than its owner (mode \(Self.octal(mode))), who could put their own key in its place;"
        + " chmod 600 fixes it."
    case .noKeyID:
      "is not named AuthKey_<KEYID>.p8 as Apple's download is, so the key ID must be given (musickit.keyID)."
    case .badKeyIDInFileName(let text):
      "has \(Printable.quote(text, limit: 16)) in its name where the key ID belongs, which is exactly 10 characters"
        + " of A–Z and 0–9; rename it or give the key ID (musickit.keyID)."
    case .keyIDMismatch(let given, let inFileName):
      "is named after the key ID \(inFileName), but the key ID given is \(given); one of the two is wrong."
    case .wrongKind(let kind): kind.predicate
    case .wrongAlgorithm(let name): "is a private key of the kind \(name); MusicKit keys are EC P-256. \(Self.advice)"
    case .otherPublicKey:
      "is a public key that is damaged or not EC P-256, as MusicKit keys are; openssl pkey -pubout -in AuthKey_….p8"
        + " writes the right one."
    case .truncated: "is truncated: its end or its beginning is missing. \(Self.advice)"
    case .damaged: "is a damaged private key: OpenSSL cannot read it. \(Self.advice)"
    case .probeFailed: "is damaged: its public half does not verify what its private half signs. \(Self.advice)"
    case .cryptography(let error):
      "could not be checked: \(error)\(error.isOutOfMemory ? " The key is not the cause." : "")"
    }
  }

  static let advice =
    "Use the AuthKey_<KEYID>.p8 file that the Apple developer site gave for download when the MusicKit key was made."

  private static func unreadable(_ code: Int32) -> String {
    switch code {
    case ENOENT: "does not exist."
    case EACCES, EPERM: "is not readable by this process (user \(geteuid())); check its owner and mode."
    default: "cannot be read: \(unsafe String(cString: strerror(code)))."
    }
  }

  private static func octal(_ mode: UInt32) -> String { "0" + String(mode & 0o777, radix: 8) }
}

/// What key IDs and team IDs have in common: exactly ten characters of `A`–`Z` and `0`–`9`.
enum AppleIdentifier {
  static let length = 10

  static func isValid(_ text: some StringProtocol) -> Bool {
    text.utf8.count == length && text.utf8.allSatisfy(isIdentifierByte)
  }

  static func check(_ text: String, as name: String) throws(IdentifierError) {
    guard !isValid(text) else { return }
    throw IdentifierError(name: name, text: text)
  }

  private static func isIdentifierByte(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}

/// A key ID or team ID that Apple cannot have given out.
public struct IdentifierError: Error, Sendable, Hashable, CustomStringConvertible {
  /// "key ID" or "team ID".
  let name: String
  /// The value given. It may be the key itself by mistake, so the error shows it only when it is short.
  let text: String

  /// One sentence that names what is wrong.
  public var description: String {
    "The \(name) \(Printable.quote(text, limit: 16)) is not one: Apple's are exactly \(AppleIdentifier.length)"
      + " characters of A–Z and 0–9\(hint)."
  }

  private var hint: String {
    let count = text.utf8.count
    if count == 0 { return ", and this is empty" }
    if count != AppleIdentifier.length { return ", and this has \(count)" }
    return AppleIdentifier.isValid(text.uppercased()) ? ", and this has lower-case letters" : ""
  }
}

/// The ten-character identifier of Apple's for a MusicKit private key: the `kid` of a token.
public struct KeyID: Sendable, Hashable, CustomStringConvertible {
  /// The ten characters.
  public let description: String

  /// - Throws: `IdentifierError` unless the text is exactly ten characters of `A`–`Z` and `0`–`9`.
  public init(_ text: String) throws(IdentifierError) {
    try AppleIdentifier.check(text, as: "key ID")
    description = text
  }
}

/// The ten-character identifier of Apple's for a developer team: the `iss` of a token.
public struct TeamID: Sendable, Hashable, CustomStringConvertible {
  /// The ten characters.
  public let description: String

  /// - Throws: `IdentifierError` unless the text is exactly ten characters of `A`–`Z` and `0`–`9`.
  public init(_ text: String) throws(IdentifierError) {
    try AppleIdentifier.check(text, as: "team ID")
    description = text
  }
}
