import Bytes
import Cryptography

/// Extracts the DER of a key from pasted text. Every intermediate form is a `SecretBytes`. Environment variables,
/// dashboards and secret stores change a `.p8`: literal `\n`, CRLF, a BOM, quotes, spaces instead of line ends, base64
/// of the whole file, missing header lines, and any combination of these.
enum KeyText {
  /// The most bytes of the text. A P-256 key has 257 bytes, and its base64 344.
  static let limit = 16_384
  /// The most layers of base64. A user may encode a key twice by mistake, but hardly more often.
  private static let layers = 3

  static func der(from text: SecretBytes) throws(SigningKeyError) -> SecretBytes {
    guard text.count <= limit else { throw .init(.tooLarge(limit: limit)) }
    var text = text
    for _ in 0..<layers {
      if let kind = text.withBytes(binaryKind) { throw .init(.wrongKind(kind)) }
      text = cleaned(text)
      if let body = try text.withBytes({ bytes throws(SigningKeyError) in try PEMBlock.body(in: bytes) }) {
        guard let der = decoded(slice(text, body)) else { throw .init(.damaged) }
        return der
      }
      if let kind = text.withBytes(textKind) { throw .init(.wrongKind(kind)) }
      guard let inner = decoded(text) else { throw .init(.wrongKind(.notAKey)) }
      if inner.withBytes(isDER) { return inner }
      text = inner
    }
    throw .init(.wrongKind(.notAKey))
  }

  /// Returns the DER in a PEM block `PUBLIC KEY` (RFC 7468 §13); nil if the text has none.
  static func publicKeyDER(from text: SecretBytes) -> SecretBytes? {
    let text = cleaned(text)
    let begin: StaticString = "-----BEGIN PUBLIC KEY-----"
    let body = text.withBytes { bytes -> Range<Int>? in
      guard let start = bytes.firstIndex(of: begin).map({ $0 + begin.utf8CodeUnitCount }),
        let end = bytes.firstIndex(of: "-----END PUBLIC KEY-----", from: start)
      else { return nil }
      return start..<end
    }
    return body.flatMap { decoded(slice(text, $0)) }
  }

  /// Returns the text without the bytes that pasting adds and that neither PEM nor base64 can contain; white space
  /// becomes spaces. One pass removes all of them, so the parser need not guess an order of unwrapping.
  private static func cleaned(_ text: SecretBytes) -> SecretBytes {
    SecretBytes(capacity: text.count) { output in
      text.withBytes { bytes in
        var index = 0
        while index < bytes.count {
          let (length, replacement) = token(in: bytes, at: index)
          if let replacement { output.append(replacement) }
          index += length
        }
      }
    }
  }

  /// Returns the length of the token at `index`, and its replacement; nil for none.
  private static func token(in bytes: Span<UInt8>, at index: Int) -> (length: Int, replacement: UInt8?) {
    let space = UInt8(ascii: " ")
    if bytes.starts(with: "\u{FEFF}", at: index) { return (3, nil) }
    if bytes.starts(with: "\u{A0}", at: index) { return (2, space) }
    switch bytes[index] {
    case UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: "`"): return (1, nil)
    case 0x09...0x0D: return (1, space)
    case UInt8(ascii: "\\"): return escape(in: bytes, at: index)
    case let byte: return (1, byte)
    }
  }

  /// Parses a backslash and what it escapes in shell, JSON and YAML: `\n`, `\\n`, `\r`, `\t`, `\/`, `\"`, a line end.
  private static func escape(in bytes: Span<UInt8>, at index: Int) -> (length: Int, replacement: UInt8?) {
    var next = index
    while next < bytes.count, bytes[next] == UInt8(ascii: "\\") { next += 1 }
    guard next < bytes.count else { return (next - index, nil) }
    switch bytes[next] {
    case UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"): return (next + 1 - index, UInt8(ascii: " "))
    default: return (next - index, nil)
    }
  }

  /// Returns the kind of a binary by its first bytes; nil if the bytes are text.
  private static func binaryKind(_ bytes: Span<UInt8>) -> KeyKind? {
    if bytes.starts(with: "\u{FEFF}") || bytes.isEmpty { return nil }
    if bytes.count >= 2, bytes[0] ^ bytes[1] == 0x01, bytes[0] >= 0xFE { return .utf16 }
    guard !bytes.allSatisfy({ $0 >= 0x20 || (0x09...0x0D).contains($0) }) else { return nil }
    if bytes.count > 1, bytes[0] == 0 || bytes[1] == 0 { return .utf16 }
    guard isDER(bytes) else { return .binary }
    // The version is the first element: 0 of PKCS#8 (RFC 5208 §5), 1 of SEC1 (RFC 5915 §3), 3 of PKCS#12 (RFC 7292 §4).
    let header = bytes[1] < 0x80 ? 2 : 2 + Int(bytes[1] & 0x7F)
    guard bytes.count > header + 2, bytes[header] == 2, bytes[header + 1] == 1 else { return .binary }
    switch bytes[header + 2] {
    case 0, 1: return .der
    case 3: return .pkcs12
    default: return .binary
    }
  }

  /// Returns the kind of a text without PEM lines if it is clearly not the body of a key; nil otherwise.
  private static func textKind(_ bytes: Span<UInt8>) -> KeyKind? {
    guard let first = bytes.indices.first(where: { bytes[$0] != UInt8(ascii: " ") }) else { return .empty }
    let text = bytes.extracting(first...)
    switch text[0] {
    case UInt8(ascii: "{"), UInt8(ascii: "["): return .json
    // No key begins with these: base64 of DER begins with M, base64 of PEM with L.
    case UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "~"): return .path
    default: break
    }
    if text.starts(with: "eyJ"), text.contains(UInt8(ascii: ".")) { return .jwt }
    return text.firstIndex(of: ".p8") == nil ? nil : .path
  }

  /// Returns whether the bytes begin like the SEQUENCE of a key or certificate in DER. A long one may be cut off.
  private static func isDER(_ bytes: Span<UInt8>) -> Bool {
    bytes.count >= 2 && bytes[0] == 0x30 && (bytes[1] == 0x81 || bytes[1] == 0x82 || Int(bytes[1]) == bytes.count - 2)
  }

  private static func decoded(_ text: SecretBytes) -> SecretBytes? {
    let compact = SecretBytes(capacity: text.count) { output in
      text.withBytes { bytes in
        for index in bytes.indices where bytes[index] != UInt8(ascii: " ") { output.append(bytes[index]) }
      }
    }
    var isBase64 = true
    let bytes = SecretBytes(capacity: compact.count) { output in
      isBase64 = compact.withBytes { Base64.decodePasted($0, into: &output) }
    }
    return isBase64 ? bytes : nil
  }

  private static func slice(_ text: SecretBytes, _ range: Range<Int>) -> SecretBytes {
    text.withBytes { SecretBytes(copying: $0.extracting(range)) }
  }
}

/// The single PEM block in a text (RFC 7468), found without regard to line ends.
enum PEMBlock {
  /// Returns the range of the base64; nil if there is no encapsulation boundary. Text around it is ignored (RFC 7468 §2).
  /// Throws unless the block is whole, the only one, and a `PRIVATE KEY`.
  static func body(in text: Span<UInt8>) throws(SigningKeyError) -> Range<Int>? {
    guard let begin = text.firstIndex(of: "-----BEGIN") else {
      guard text.firstIndex(of: "-----END") == nil else { throw .init(.truncated) }
      return nil
    }
    let labelStart = begin + 10
    guard let labelEnd = text.firstIndex(of: "-----", from: labelStart) else { throw .init(.truncated) }
    guard let end = text.firstIndex(of: "-----END", from: labelEnd + 5) else { throw .init(.truncated) }
    let label = compactLabel(text.extracting(labelStart..<labelEnd))
    // OpenSSL writes SEC1 keys with a parameters block before the key. The error should name the key.
    if let second = text.firstIndex(of: "-----BEGIN", from: end), label != "ECPARAMETERS" {
      let isChain =
        KeyKind.labelled(label) == .certificate && text.starts(with: "-----BEGIN CERTIFICATE-----", at: second)
      throw .init(.wrongKind(isChain ? .certificate : .severalBlocks))
    }
    let body = (labelEnd + 5)..<end
    if let kind = KeyKind.labelled(label) { throw .init(.wrongKind(refined(kind, text, after: end))) }
    guard !text.extracting(body).isEmpty else { throw .init(.truncated) }
    guard text.extracting(end...).firstIndex(of: "-----", from: 8) != nil else { throw .init(.truncated) }
    return body
  }

  /// Refines the kind: an old encrypted block has a header line (RFC 1421 §4.6.1.1), and a key may follow parameters.
  private static func refined(_ kind: KeyKind, _ text: Span<UInt8>, after end: Int) -> KeyKind {
    if text.firstIndex(of: "Proc-Type:") != nil { return .encryptedPrivateKey }
    let hasKey = kind == .ecParameters && text.firstIndex(of: "-----BEGIN EC PRIVATE KEY", from: end) != nil
    return hasKey ? .ecPrivateKey : kind
  }

  /// Returns the label without spaces. An overlong one may be part of a key and must not be shown, so it becomes empty.
  private static func compactLabel(_ bytes: Span<UInt8>) -> String {
    guard bytes.count <= 40 else { return "" }
    return String(decoding: bytes.indices.map { bytes[$0] }.filter { $0 != UInt8(ascii: " ") }, as: UTF8.self)
  }
}

/// Removes what copying leaves around a token.
enum PastedTokenTrimmer {
  /// Returns the range of the token itself, and a remark if something surrounds it.
  static func strip(_ text: Span<UInt8>) -> (range: Range<Int>, remark: String?) {
    var range = trim(text, 0..<text.count)
    // The scheme has no case (RFC 9110 §11.1).
    let scheme = range.prefix("bearer ".utf8.count)
    if text.equalsIgnoringCase(scheme, "bearer ") { range = trim(text, scheme.upperBound..<range.upperBound) }
    // Every tool prints a line end after the token, so that deserves no remark.
    let isBare = range.lowerBound == 0 && text.extracting(range.upperBound...).allSatisfy { $0 == 0x0A || $0 == 0x0D }
    let remark = "The input has white space, quotes or “Bearer” around the token, which are not part of it."
    return (range, isBare ? nil : remark)
  }

  private static func trim(_ text: Span<UInt8>, _ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, isWrapping(text[start]) { start += 1 }
    while start < end, isWrapping(text[end - 1]) { end -= 1 }
    return start..<end
  }

  private static func isWrapping(_ byte: UInt8) -> Bool {
    byte == 0x20 || (0x09...0x0D).contains(byte) || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'")
  }
}

extension Span<UInt8> {
  /// Returns the first index of `pattern` at or after `start`, or nil.
  func firstIndex(of pattern: StaticString, from start: Int = 0) -> Int? {
    (start..<Swift.max(start, count)).first { starts(with: pattern, at: $0) }
  }

  func starts(with pattern: StaticString, at start: Int = 0) -> Bool {
    let end = start + pattern.utf8CodeUnitCount
    return end <= count && equals(start..<end, pattern)
  }

  func allSatisfy(_ predicate: (UInt8) -> Bool) -> Bool { indices.allSatisfy { predicate(self[$0]) } }
}
