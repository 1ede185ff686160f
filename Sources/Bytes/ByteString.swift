/// Text from outside, kept as the bytes that came: compared, hashed and sorted byte by byte.
///
/// `String` compares and hashes by canonical equivalence, for which it sorts each run of combining marks by insertion: a
/// run of n marks costs O(n²). It also takes different bytes for the same text. So `String` is for text of the
/// operator's and the program's own, and what a peer sends is looked up, compared and hashed as this type.
public struct ByteString: Sendable {
  /// The bytes; UTF-8 where the source says so.
  public let bytes: [UInt8]

  /// Takes bytes as they are.
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Takes the UTF-8 of a text.
  public init(_ text: some StringProtocol) {
    bytes = Array(text.utf8)
  }

  /// The text, to be shown and never to be compared.
  public var text: String { String(decoding: bytes, as: UTF8.self) }

  /// How many bytes there are.
  public var count: Int { bytes.count }

  /// Whether all of it is ASCII, so that ``text`` has one normal form.
  public var isASCII: Bool { bytes.allSatisfy { $0 < 0x80 } }

  /// The same with ASCII letters in lower case, and all other bytes as they are.
  public var lowercasedASCII: ByteString {
    ByteString(bytes.map { $0 &- UInt8(ascii: "A") < 26 ? $0 | 0x20 : $0 })
  }
}

extension ByteString: Hashable, Comparable {
  /// Whether both are the same bytes.
  public static func == (left: ByteString, right: ByteString) -> Bool { left.bytes == right.bytes }

  /// Whether the bytes are the UTF-8 of `text`, without any normalization of either.
  public static func == (left: ByteString, text: String) -> Bool {
    left.bytes.count == text.utf8.count && left.bytes.elementsEqual(text.utf8)
  }

  /// Whether the bytes are other than the UTF-8 of `text`.
  public static func != (left: ByteString, text: String) -> Bool { !(left == text) }

  /// Lets a literal stand in a `case`.
  public static func ~= (text: String, value: ByteString) -> Bool { value == text }

  /// Sorts by bytes, as UTF-8 is sorted.
  public static func < (left: ByteString, right: ByteString) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }

  /// Feeds the bytes and how many there are.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(bytes.count)
    // Safe: the buffer is read within the closure only.
    unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
  }
}

extension ByteString: ExpressibleByStringInterpolation {
  /// Takes the UTF-8 of a literal.
  public init(stringLiteral text: String) {
    self.init(text)
  }
}

extension ByteString: CustomStringConvertible {
  /// The text.
  public var description: String { text }
}
