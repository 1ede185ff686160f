import Bytes
import COpenSSL
public import Cryptography

/// A new API key in the format of ``APIKeyForm``.
public struct APIKey: Sendable {
  private let text: SecretBytes
  /// The digest of the key, which the configuration holds.
  public let digest: APIKeyDigest

  /// Generates a key from 256 random bits of OpenSSL's generator for secrets. Throws if it has none.
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

  /// Appends one character or none. 248 is the last multiple of 62 in a byte, so the function drops bytes from 248 on:
  /// otherwise the first eight characters would be more likely than the rest.
  private static func appendRandom(to output: inout OutputSpan<UInt8>) throws(CryptographyError) {
    var byte: UInt8 = 0
    guard unsafe RAND_priv_bytes(&byte, 1) == 1 else { throw CryptographyError(function: "RAND_priv_bytes") }
    if byte < 248 { output.append(APIKeyForm.alphabet[Int(byte % 62)]) }
  }

  /// Lends the key's characters, which are ASCII, to `body`.
  public func withBytes<Result, E: Error>(_ body: (Span<UInt8>) throws(E) -> Result) throws(E) -> Result {
    try text.withBytes(body)
  }
}

extension APIKey: CustomStringConvertible, CustomReflectable {
  /// A text without the key.
  public var description: String { "APIKey(sha256: \(digest))" }
  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Classifies a text by the format of API keys: `mkts_`, 43 random characters, and a checksum of six characters. Secret
/// scanners find a key by `\bmkts_[0-9A-Za-z]{49}\b` and confirm it by the checksum: the CRC-32 of all characters
/// before it (ISO/IEC 13239, as in zlib), in base 62. An operator may also use a key of any other format.
public enum APIKeyForm: Sendable, Equatable {
  /// The key came from `new-api-key`.
  case genuine
  /// The key came from `new-api-key`, but something is missing, added or changed.
  case mistyped
  /// The text does not start with the prefix of API keys.
  case other

  /// The fewest bytes of a key of another format that may have 128 random bits: 22 characters of base 64.
  public static let leastBytes = 22

  /// The prefix of keys: MusicKit token server.
  static let prefix = Array("mkts_".utf8)
  /// The number of random characters, each one of 62: 256 bits.
  static let randomCount = 43
  /// The number of characters of the checksum: 62⁶ is above 2³².
  static let checksumCount = 6
  /// The digits of base 62, in ASCII order.
  static let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)

  /// Classifies a text.
  public init(of text: Span<UInt8>) {
    guard text.count >= Self.prefix.count, Self.prefix.indices.allSatisfy({ text[$0] == Self.prefix[$0] }) else {
      self = .other
      return
    }
    self = Self.isGenuine(text) ? .genuine : .mistyped
  }

  /// Classifies a text.
  public init(of text: String) { self.init(of: Array(text.utf8).span) }

  private static func isGenuine(_ text: Span<UInt8>) -> Bool {
    let bodyCount = prefix.count + randomCount
    guard text.count == bodyCount + checksumCount else { return false }
    let expected = checksum(of: text.extracting(0..<bodyCount))
    return expected.indices.allSatisfy { text[bodyCount + $0] == expected[$0] }
      && (prefix.count..<bodyCount).allSatisfy { alphabet.contains(text[$0]) }
  }

  /// Returns the CRC-32, most significant digit first, with leading zeros.
  static func checksum(of text: Span<UInt8>) -> [UInt8] {
    var digits = [UInt8](repeating: alphabet[0], count: checksumCount)
    var rest = crc32(text)
    for index in digits.indices.reversed() {
      digits[index] = alphabet[Int(rest % 62)]
      rest /= 62
    }
    return digits
  }

  /// Computes the CRC-32 bit by bit, because a key is short and checked seldom.
  private static func crc32(_ bytes: Span<UInt8>) -> UInt32 {
    var remainder: UInt32 = .max
    for index in bytes.indices {
      remainder ^= UInt32(bytes[index])
      for _ in 0..<8 { remainder = remainder >> 1 ^ (remainder & 1 == 1 ? 0xEDB8_8320 : 0) }
    }
    return ~remainder
  }
}

/// The SHA-256 of an API key: the only part of the key that a configuration contains. A plain hash is enough, because
/// the key has 256 random bits. Password hashes are slow because passwords can be guessed.
public struct APIKeyDigest: Sendable {
  private let bytes: InlineArray<32, UInt8>

  /// Parses the output of `new-api-key` and `sha256sum`: exactly 64 hexadecimal digits, upper or lower case.
  public init?(hexadecimal text: String) {
    let digits = Array(text.utf8)
    guard digits.count == 64 else { return nil }
    var bytes = InlineArray<32, UInt8>(repeating: 0)
    for index in bytes.indices {
      guard let high = digits[2 * index].hexadecimalDigit, let low = digits[2 * index + 1].hexadecimalDigit
      else { return nil }
      bytes[index] = high << 4 | low
    }
    self.bytes = bytes
  }

  /// Hashes a key as the request presents it. Throws if OpenSSL fails.
  public init(of key: Span<UInt8>) throws(CryptographyError) { bytes = try SHA256.digest(of: key) }

  /// The 64 hexadecimal digits in lower case.
  public var hexadecimal: String { String(hexadecimal: bytes.span) }
  /// Whether this is the digest of an empty text or a single line feed. A script hashes these if its variable is unset.
  public var isOfEmptyKey: Bool { Self.ofEmptyKeys.contains(self) }

  private static let ofEmptyKeys = [[], [UInt8(ascii: "\n")]].compactMap { try? APIKeyDigest(of: $0.span) }
}

extension APIKeyDigest: Hashable {
  /// Compares all 32 bytes in constant time, so the duration reveals nothing about either digest.
  public static func == (left: APIKeyDigest, right: APIKeyDigest) -> Bool {
    unsafe left.bytes.span.withUnsafeBytes { left in
      unsafe right.bytes.span.withUnsafeBytes { right in
        unsafe CRYPTO_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
      }
    }
  }

  /// Feeds all 32 bytes to the hasher.
  public func hash(into hasher: inout Hasher) {
    unsafe bytes.span.withUnsafeBytes { bytes in unsafe hasher.combine(bytes: bytes) }
  }
}

extension APIKeyDigest: CustomStringConvertible {
  /// The hexadecimal digits.
  public var description: String { hexadecimal }
}

/// The API keys of all clients, and the client of each.
///
/// A look-up of a presented key's digest in a hash table costs the same for a thousand clients with keys in rotation as
/// for one. Its duration reveals nothing about the configured digests: the place in the table is a hash of the whole
/// digest under a seed of this process (SipHash), and each comparison takes all bytes.
public struct APIKeyring: Sendable {
  private var clients: [APIKeyDigest: Int] = [:]

  /// Creates a keyring without keys.
  public init() {}

  /// The number of keys.
  public var count: Int { clients.count }

  /// Adds a client's key. Returns the client that already has it, and keeps it; nil if there was none.
  public mutating func add(_ digest: APIKeyDigest, for client: Int) -> Int? {
    if let owner = clients[digest] { return owner }
    clients[digest] = client
    return nil
  }

  /// Returns the client whose key has this digest, or nil.
  public func client(for digest: APIKeyDigest) -> Int? { clients[digest] }

  /// Returns the client that owns this key; nil if no client owns it, or if OpenSSL fails.
  public func client(presenting key: Span<UInt8>) -> Int? {
    guard !key.isEmpty, let digest = try? APIKeyDigest(of: key) else { return nil }
    return client(for: digest)
  }
}
