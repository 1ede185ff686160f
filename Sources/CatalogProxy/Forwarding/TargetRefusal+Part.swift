import Bytes
public import HTTPMessages

/// The part of a target that a refusal is about, so that a developer need not search for it.
extension TargetRefusal {
  /// The response to the caller, with the offending part of the target if there is one.
  ///
  /// - Parameters:
  ///   - path: The path as received.
  ///   - query: The query as received; nil if the target has none, or it was not read.
  public func response(path: ArraySlice<UInt8>, query: ArraySlice<UInt8>?) -> ErrorResponse {
    var response = response
    if let part = offence(in: path) ?? query.flatMap(offence(in:)) { response.detail += " \(part)" }
    return response
  }

  /// Returns a sentence about the first part of the text that the refusal is about, or nil.
  private func offence(in text: ArraySlice<UInt8>) -> String? {
    let text = text.span
    var index = 0
    while index < text.count {
      let length = partLength(at: index, in: text)
      if length > 0 { return sentence(about: text, index..<index + length) }
      // An escape is one character.
      let isEscape = text[index] == UInt8(ascii: "%") && text.percentEncodedByte(at: index, before: text.count) != nil
      index += isEscape ? 3 : 1
    }
    return nil
  }

  /// Returns the length of the offending part that begins at `index`; 0 if none does.
  private func partLength(at index: Int, in text: Span<UInt8>) -> Int {
    let byte = text[index]
    guard byte == UInt8(ascii: "%") else {
      if self == .notASCII || self == .queryByte || self == .queryNotUTF8 { return text.lengthBeyondASCII(at: index) }
      return isAbout(byte) ? 1 : 0
    }
    guard let decoded = text.percentEncodedByte(at: index, before: text.count) else {
      return self == .malformedEscape ? min(3, text.count - index) : 0
    }
    switch self {
    case .doubleEncoding: return decoded == byte ? 3 : 0
    case .encodedSlash: return decoded == UInt8(ascii: "/") ? 3 : 0
    case .queryByte: return 0
    case .queryNotUTF8, .notASCII: return decoded >= 0x80 ? 3 : 0
    default: return isAbout(decoded) ? 3 : 0
    }
  }

  private func isAbout(_ byte: UInt8) -> Bool {
    switch self {
    case .controlByte: byte.isControlOrSpace
    case .backslash: byte == UInt8(ascii: "\\")
    case .pathParameter: byte == UInt8(ascii: ";")
    case .fragment: byte == UInt8(ascii: "#")
    case .reservedCharacter: byte < 0x80 && !byte.isUnreservedInURI && byte != UInt8(ascii: "/")
    default: false
    }
  }

  private func sentence(about text: Span<UInt8>, _ part: Range<Int>) -> String {
    var encoded: [UInt8] = []
    for index in part {
      if text[index].isControlOrSpace || text[index] >= 0x80 {
        encoded.append(percentEncoding: text[index])
      } else {
        encoded.append(text[index])
      }
    }
    let written = String(decoding: encoded, as: UTF8.self)
    let position = "at byte \(part.lowerBound + 1)"
    guard text[part.lowerBound] >= 0x80 else { return "It is \(written), \(position)." }
    var raw: [UInt8] = []
    raw.append(copying: text.extracting(part))
    guard let character = String(validating: raw, as: UTF8.self), character.unicodeScalars.allSatisfy(\.isVisible)
    else {
      return "It is a byte that is not UTF-8, \(position): \(written)."
    }
    return "It is “\(character)”, \(position): write \(written)."
  }
}

extension Span<UInt8> {
  /// Returns the length of the UTF-8 character beyond ASCII at `index`, 1 for a byte that begins none, and 0 for ASCII.
  fileprivate func lengthBeyondASCII(at index: Int) -> Int {
    let length =
      switch self[index] {
      case ..<0x80: 0
      case 0xC2..<0xE0: 2
      case 0xE0..<0xF0: 3
      case 0xF0..<0xF5: 4
      default: 1
      }
    let isWhole = index + length <= count && (1..<Swift.max(length, 1)).allSatisfy { self[index + $0] & 0xC0 == 0x80 }
    return isWhole ? length : Swift.min(length, 1)
  }
}

extension UnicodeScalar {
  /// Whether the character shows itself. Controls, direction marks and combining marks could change the text around it.
  fileprivate var isVisible: Bool {
    switch properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .otherLetter, .decimalNumber, .letterNumber,
      .otherNumber,
      .dashPunctuation, .otherPunctuation, .initialPunctuation, .finalPunctuation, .mathSymbol, .currencySymbol,
      .otherSymbol:
      true
    default: false
    }
  }
}
