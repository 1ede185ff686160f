/// Extracts the DER of a key from pasted text. Every intermediate form is a `SecretBytes`.
///
/// What happens to a `.p8` on its way through environment variables, dashboards and secret stores: literal `\n`, CRLF,
/// a BOM, quotes, spaces in place of line ends, base64 of the whole file, the header lines left out, and all of that
/// on top of each other.
enum KeyText {
  /// Longest text that is looked at: a P-256 key has 257 bytes, base64 of it 344.
  static let limit = 16_384
  /// A user may encode a key in base64 twice by mistake; the parser does not expect more layers than this.
  private static let layers = 3

  static func der(from text: SecretBytes) throws(SigningKeyError) -> SecretBytes {
    guard text.count <= limit else { throw .init(.tooLarge(limit: limit)) }
    var text = text
    for _ in 0..<layers {
      if let kind = text.withBytes(binaryKind) { throw .init(.wrongKind(kind)) }
      text = cleaned(text)
      if let body = try text.withBytes({ bytes throws(SigningKeyError) in try PEMBlock.only(in: bytes)?.body }) {
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

  /// Without the bytes that pasting adds and that neither PEM nor base64 can hold; all white space as single bytes.
  ///
  /// One pass for all of them, wherever they are: it needs no order of unwrapping to be guessed.
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

  /// How many bytes belong together at `index`, and what stands for them, if anything.
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

  /// A backslash and what it escapes, in shell, JSON and YAML: `\n`, `\\n`, `\r`, `\t`, `\/`, `\"`, or a line end.
  private static func escape(in bytes: Span<UInt8>, at index: Int) -> (length: Int, replacement: UInt8?) {
    var next = index
    while next < bytes.count, bytes[next] == UInt8(ascii: "\\") { next += 1 }
    guard next < bytes.count else { return (next - index, nil) }
    switch bytes[next] {
    case UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"): return (next + 1 - index, UInt8(ascii: " "))
    default: return (next - index, nil)
    }
  }

  /// What the first bytes say if this is no text.
  private static func binaryKind(_ bytes: Span<UInt8>) -> KeyKind? {
    if bytes.starts(with: "\u{FEFF}") || bytes.isEmpty { return nil }
    if bytes.count >= 2, bytes[0] ^ bytes[1] == 0x01, bytes[0] >= 0xFE { return .utf16 }
    guard !bytes.allSatisfy({ $0 >= 0x20 || (0x09...0x0D).contains($0) }) else { return nil }
    return bytes.count > 1 && (bytes[0] == 0 || bytes[1] == 0) ? .utf16 : .binary
  }

  /// What a text without PEM lines is, if it is plainly not the body of a key.
  private static func textKind(_ bytes: Span<UInt8>) -> KeyKind? {
    guard let first = bytes.indices.first(where: { bytes[$0] != UInt8(ascii: " ") }) else { return .empty }
    let text = bytes.extracting(first...)
    switch text[0] {
    case UInt8(ascii: "{"), UInt8(ascii: "["): return .json
    // No key begins so: base64 of DER begins with M, base64 of PEM with L.
    case UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "~"): return .path
    default: break
    }
    if text.starts(with: "eyJ"), text.contains(UInt8(ascii: ".")) { return .jwt }
    return text.firstIndex(of: ".p8") == nil ? nil : .path
  }

  /// Whether the bytes begin as the SEQUENCE that every DER key and certificate is, more than 127 bytes long or cut.
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
