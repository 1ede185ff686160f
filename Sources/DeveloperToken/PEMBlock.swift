/// The one PEM block in a text (RFC 7468), found without regard to line ends.
struct PEMBlock {
  /// Where the base64 is.
  let body: Range<Int>

  /// The block, if there is any encapsulation boundary at all; text around it is ignored (RFC 7468 §2).
  ///
  /// - Throws: `SigningKeyError` unless it is whole, the only one, and a `PRIVATE KEY`.
  static func only(in text: Span<UInt8>) throws(SigningKeyError) -> PEMBlock? {
    guard let begin = text.firstIndex(of: "-----BEGIN") else {
      guard text.firstIndex(of: "-----END") == nil else { throw .init(.truncated) }
      return nil
    }
    let labelStart = begin + 10
    guard let labelEnd = text.firstIndex(of: "-----", from: labelStart) else { throw .init(.truncated) }
    guard let end = text.firstIndex(of: "-----END", from: labelEnd + 5) else { throw .init(.truncated) }
    let label = compactLabel(text.extracting(labelStart..<labelEnd))
    // A parameters block before the key is how openssl writes SEC1 keys: name the key.
    if let second = text.firstIndex(of: "-----BEGIN", from: end), label != "ECPARAMETERS" {
      let isOnlyKind = KeyKind.labelled(label) == .certificate && isCertificate(text, at: second)
      throw .init(.wrongKind(isOnlyKind ? .certificate : .severalBlocks))
    }
    let body = (labelEnd + 5)..<end
    if let kind = KeyKind.labelled(label) { throw .init(.wrongKind(refined(kind, text, after: end))) }
    guard !text.extracting(body).isEmpty else { throw .init(.truncated) }
    guard text.extracting(end...).firstIndex(of: "-----", from: 8) != nil else { throw .init(.truncated) }
    return PEMBlock(body: body)
  }

  /// The old way to encrypt puts a header line into the block (RFC 1421 §4.6.1.1); parameters may precede their key.
  private static func refined(_ kind: KeyKind, _ text: Span<UInt8>, after end: Int) -> KeyKind {
    if text.firstIndex(of: "Proc-Type:") != nil { return .encryptedPrivateKey }
    let hasKey = kind == .ecParameters && text.firstIndex(of: "-----BEGIN EC PRIVATE KEY", from: end) != nil
    return hasKey ? .ecPrivateKey : kind
  }

  private static func isCertificate(_ text: Span<UInt8>, at index: Int) -> Bool {
    text.starts(with: "-----BEGIN CERTIFICATE-----", at: index)
  }

  /// The label without spaces; empty if it is too long for a label, because it may be part of a key and must not be
  /// shown.
  private static func compactLabel(_ bytes: Span<UInt8>) -> String {
    guard bytes.count <= 40 else { return "" }
    return String(decoding: bytes.indices.map { bytes[$0] }.filter { $0 != UInt8(ascii: " ") }, as: UTF8.self)
  }
}
