import Glibc

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
    let subject = path.map { "The key file \(Printable.quote($0, limit: 1024))" } ?? "The key"
    return "\(subject) \(reason.predicate)"
  }
}

extension SigningKeyError {
  /// What is wrong with a key.
  public enum Reason: Sendable, Hashable {
    /// The file cannot be opened or read; the `errno` says why.
    case unreadable(Int32)
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
    case .directory: "is a directory; name the .p8 file in it."
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
