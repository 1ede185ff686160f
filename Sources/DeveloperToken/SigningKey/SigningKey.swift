public import Bytes
public import Cryptography
import Glibc

/// A MusicKit private key: an EC P-256 key from Apple, which has signed and verified a probe. It holds the only copy,
/// inside OpenSSL, or a ``RemoteSigner`` that has the key. Descriptions show only the key ID.
public final class SigningKey: Sendable {
  /// The identifier for the `kid` of every token.
  public let keyID: KeyID
  /// The public half as PEM (`SubjectPublicKeyInfo`), which is not secret.
  public let publicKeyPEM: String
  /// The SHA-256 of the public half in hexadecimal: `openssl pkey -in AuthKey_….p8 -pubout -outform DER | sha256sum`.
  public let fingerprint: String
  /// The public half, which verifies tokens.
  public let verificationKey: VerificationKey
  /// The findings about the key's file, for the log.
  public let findings: [Finding]
  /// The signer that has the private key; nil if this process has it.
  public let remote: RemoteSigner?
  private let privateKey: PrivateKey?

  /// Parses a key from its text, in any form of a pasted `.p8`. The error names the kind of text found instead.
  public convenience init(parsing text: SecretBytes, keyID: KeyID, findings: [Finding] = []) throws(SigningKeyError) {
    try self.init(KeyDER.privateKey(KeyText.der(from: text)), keyID: keyID, findings: findings)
  }

  /// Generates a random key for demonstrations and tests. Apple does not know it. Throws if OpenSSL fails.
  public static func generate(keyID: KeyID) throws(SigningKeyError) -> SigningKey {
    let key: PrivateKey
    do { key = try PrivateKey.generate() } catch { throw .init(.cryptography(error)) }
    return try SigningKey(key, keyID: keyID, findings: [])
  }

  private init(_ key: PrivateKey, keyID: KeyID, findings: [Finding]) throws(SigningKeyError) {
    self.keyID = keyID
    self.findings = findings
    (privateKey, remote) = (key, nil)
    verificationKey = key.verificationKey(keyID: keyID)
    let isProved: Bool
    do throws(CryptographyError) {
      publicKeyPEM = try key.publicKeyPEM()
      let der = try key.publicKeyDER()
      fingerprint = String(hexadecimal: try SHA256.digest(of: der.span).span)
      // The server finds a key with mismatched halves now, before Apple does.
      let probe = Array("A probe of the signing key.".utf8)
      isProved = verificationKey.verifies(try key.signature(of: probe.span), of: probe.span)
    } catch { throw .init(.cryptography(error)) }
    guard isProved else { throw .init(.probeFailed) }
  }

  /// Creates a key with the public half in a file. A signer outside of the server, not asked yet, has the other.
  public convenience init(
    of place: RemoteSigner.Place, publicKeyFile path: String, timeout: Duration, keyID: KeyID
  ) throws(SigningKeyError) {
    try self.init(
      RemoteSigner(place, publicKey: PublicKeyFile.load(path, keyID: keyID), timeout: timeout), keyID: keyID)
  }

  init(_ remote: RemoteSigner, keyID: KeyID) throws(SigningKeyError) {
    let der = remote.publicKey.der
    (self.keyID, self.remote, findings, privateKey) = (keyID, remote, [], nil)
    verificationKey = remote.publicKey.verificationKey
    publicKeyPEM = "-----BEGIN PUBLIC KEY-----\n\(Base64.encode(der.span))\n-----END PUBLIC KEY-----\n"
    do { fingerprint = String(hexadecimal: try SHA256.digest(of: der.span).span) } catch {
      throw .init(.cryptography(error))
    }
  }

  /// Returns whether both are the same key. Their signers may differ.
  public func isSame(as other: SigningKey) -> Bool { keyID == other.keyID && fingerprint == other.fingerprint }

  /// Returns whether both are the same key, and have the same signer or none.
  public func signsLike(_ other: SigningKey) -> Bool {
    isSame(as: other) && remote?.place == other.remote?.place && remote?.timeout == other.remote?.timeout
  }

  /// Returns the signature of `input`. With a ``remote`` signer it blocks.
  func signature(of input: [UInt8]) throws(TokenError) -> ECDSASignature {
    do throws(RemoteSignerError) {
      if let remote { return try remote.signature(of: input) }
    } catch { throw .signer(error) }
    do throws(CryptographyError) { return try ownKey().signature(of: input.span) } catch { throw .signing(error) }
  }

  /// Appends the raw 64-byte signature of `input` by a key that this process has.
  public func sign(_ input: Span<UInt8>, appendingTo output: inout [UInt8]) throws(CryptographyError) {
    output.append(copying: try ownKey().signature(of: input).raw.span)
  }

  private func ownKey() throws(CryptographyError) -> PrivateKey {
    guard let privateKey else { throw .init(function: "SigningKey.ownKey") }
    return privateKey
  }

  /// Returns 32 secret bytes that only a process with this key has: HMAC-SHA-256 of `label` under the private number.
  package func secret(for label: StaticString) throws(CryptographyError) -> SecretBytes {
    try ownKey().secret(for: label)
  }
}

extension SigningKey: CustomStringConvertible, CustomReflectable {
  /// The key ID and nothing else.
  public var description: String { "SigningKey(\(keyID))" }
  /// A mirror with the key ID and nothing else.
  public var customMirror: Mirror { Mirror(self, children: ["keyID": keyID]) }
}

extension SigningKey {
  /// Reads a key from a file. The key ID comes from a file name `AuthKey_<KEYID>.p8` unless the caller supplies one. If
  /// both exist and differ, one is wrong, and Apple would refuse the tokens. Symbolic links are followed: Kubernetes
  /// mounts secrets that way.
  public static func load(file path: String, keyID: KeyID?) throws(SigningKeyError) -> SigningKey {
    do throws(SigningKeyError) {
      // This check precedes that of the name, which does not matter if the path is missing or a directory.
      try KeyFile.checkPlace(path)
      let keyID = try Self.keyID(given: keyID, path: path)
      let file = try KeyFile.read(path)
      return try SigningKey(parsing: file.text, keyID: keyID, findings: file.findings)
    } catch { throw SigningKeyError(error.reason, path: path) }
  }

  private static func keyID(given: KeyID?, path: String) throws(SigningKeyError) -> KeyID {
    let text = KeyID.text(inFileName: path)
    guard let inFileName = text.flatMap({ try? KeyID($0) }) else {
      // A name such as AuthKey_production.p8 is the user's choice and does not contradict the given key ID.
      if let given { return given }
      throw .init(text.map { .badKeyIDInFileName($0) } ?? .noKeyID)
    }
    guard let given, given != inFileName else { return inFileName }
    throw .init(.keyIDMismatch(given: given, inFileName: inFileName))
  }
}

/// The reason why a MusicKit private key is unusable. The description says what the text is instead, without key bytes.
public struct SigningKeyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The path of the file; nil if the key came as a setting.
  public let path: String?
  /// The problem with the key.
  public let reason: Reason

  init(_ reason: Reason, path: String? = nil) { (self.reason, self.path) = (reason, path) }

  /// One or two sentences: what is wrong, and what would be right.
  public var description: String {
    let subject = path.map { "The key file \(Printable.quote(Printable.absolute($0), limit: 1024))" } ?? "The key"
    return "\(subject) \(reason.predicate)"
  }
}

extension SigningKeyError {
  /// A problem with a key.
  public enum Reason: Sendable, Hashable {
    /// The file cannot be opened or read; the value is the `errno`.
    case unreadable(Int32)
    case denied(FileDenial)
    case unexpandedHome
    case directory
    case notRegularFile
    case tooLarge(limit: Int)
    case writableByOthers(mode: UInt32)
    case noKeyID
    case badKeyIDInFileName(String)
    case keyIDMismatch(given: KeyID, inFileName: KeyID)
    case wrongKind(KeyKind)
    case wrongAlgorithm(String)
    case otherPublicKey
    /// The file should have the public half only.
    case privateInPlaceOfPublic
    case noPublicKey
    case truncated
    /// The text is a PKCS#8 private key that OpenSSL cannot parse, or has bytes after its end.
    case damaged
    case probeFailed
    case cryptography(CryptographyError)
  }
}

extension SigningKeyError.Reason {
  /// The sentence without its subject.
  var predicate: String {
    switch self {
    case .unreadable(ENOENT): "does not exist."
    case .unreadable(let code): "cannot be read: \(unsafe String(cString: strerror(code)))."
    case .denied(let denial): "\(denial.predicate). Let that user or group read it."
    case .unexpandedHome:
      "has a path that begins with ~, which a shell expands and this program does not; write the path in full."
    case .directory: "is a directory; write the path of the file in it."
    case .notRegularFile: "is a device, FIFO or socket; it must be a regular file."
    case .tooLarge(let limit): "is larger than \(limit / 1024) KiB; a key for MusicKit has less than 300 bytes."
    case .writableByOthers(let mode):
      "is writable by users other than its owner (mode \(FilePermissions.octal(mode))), who could replace it with their"
        + " own key; chmod 600 fixes it.\(FilePermissions.decimalMode(mode).map { " \($0)." } ?? "")"
    case .noKeyID: "does not have Apple's file name AuthKey_<KEYID>.p8, so the key ID must be set (musickit.keyID)."
    case .badKeyIDInFileName(let text):
      "has \(Printable.quote(text, limit: 16)) in its name where the key ID belongs, which is exactly 10 characters"
        + " of A–Z and 0–9; rename it or set the key ID (musickit.keyID)."
    case .keyIDMismatch(let given, let inFileName):
      "has the key ID \(inFileName) in its name, but the key ID in the settings is \(given); one of the two is wrong."
    case .wrongKind(let kind): kind.predicate
    case .wrongAlgorithm(let name): "is a private key of the kind \(name); MusicKit keys are EC P-256. \(Self.advice)"
    case .otherPublicKey:
      "is a public key that is damaged or not EC P-256, as MusicKit keys are; openssl pkey -pubout -in AuthKey_….p8"
        + " writes the right one."
    case .privateInPlaceOfPublic:
      "has a private key, and only the signer may have that one; write the public half, as openssl pkey -pubout and"
        + " ssh-keygen -y print it."
    case .noPublicKey:
      "has no public key; write PEM (PUBLIC KEY), as openssl pkey -pubout prints it, or the line ecdsa-sha2-nistp256 …"
        + " of OpenSSH."
    case .truncated: "is truncated: its end or its beginning is missing. \(Self.advice)"
    case .damaged: "is a damaged private key: OpenSSL cannot read it. \(Self.advice)"
    case .probeFailed: "is damaged: its public half does not verify what its private half signs. \(Self.advice)"
    case .cryptography(let error):
      "cannot be checked: \(error)\(error.isOutOfMemory ? " The key is not the cause." : "")"
    }
  }

  static let advice =
    "Use the AuthKey_<KEYID>.p8 file that you downloaded from the Apple developer site when you made the MusicKit key."
}

/// The common form of key IDs and team IDs: exactly ten characters of `A`–`Z` and `0`–`9`.
enum AppleIdentifier {
  static let length = 10

  static func isValid(_ text: some StringProtocol) -> Bool {
    text.utf8.count == length
      && text.utf8.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) || $0.decimalDigit != nil }
  }

  static func check(_ text: String, as name: String) throws(IdentifierError) {
    guard isValid(text) else { throw IdentifierError(name: name, text: text) }
  }
}

/// A key ID or team ID that Apple cannot have issued.
public struct IdentifierError: Error, Sendable, Hashable, CustomStringConvertible {
  /// "key ID" or "team ID".
  let name: String
  /// The given value. It may be the key itself by mistake, so the error shows it only if it is short.
  let text: String

  /// One sentence that names the problem.
  public var description: String {
    "The \(name) \(Printable.quote(text, limit: 16)) is invalid: a \(name) has exactly \(AppleIdentifier.length)"
      + " characters of A–Z and 0–9\(hint)."
  }

  private var hint: String {
    let count = text.utf8.count
    if count == 0 { return ", and this one is empty" }
    if count != AppleIdentifier.length { return ", and this one has \(count)" }
    return AppleIdentifier.isValid(text.uppercased()) ? ", and this one has lower-case letters" : ""
  }
}

/// Apple's ten-character identifier of a MusicKit private key: the `kid` of a token.
public struct KeyID: Sendable, Hashable, CustomStringConvertible {
  /// The ten characters.
  public let description: String

  /// Throws unless the text is exactly ten characters of `A`–`Z` and `0`–`9`.
  public init(_ text: String) throws(IdentifierError) {
    try AppleIdentifier.check(text, as: "key ID")
    description = text
  }

  /// Creates the key ID in the file name `AuthKey_<KEYID>.p8` of a path. Returns nil if there is no valid one.
  public init?(fileName path: String) {
    guard let text = Self.text(inFileName: path), let id = try? KeyID(text) else { return nil }
    self = id
  }

  /// Returns the text in place of the key ID, or nil for a name of another form.
  static func text(inFileName path: String) -> String? {
    let name = path.split(separator: "/").last ?? ""
    guard name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else { return nil }
    return String(name.dropFirst("AuthKey_".count).dropLast(".p8".count))
  }
}

/// Apple's ten-character identifier of a developer team: the `iss` of a token.
public struct TeamID: Sendable, Hashable, CustomStringConvertible {
  /// The ten characters.
  public let description: String

  /// Throws unless the text is exactly ten characters of `A`–`Z` and `0`–`9`.
  public init(_ text: String) throws(IdentifierError) {
    try AppleIdentifier.check(text, as: "team ID")
    description = text
  }
}
