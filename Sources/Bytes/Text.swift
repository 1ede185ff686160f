import Glibc

extension String {
  /// Calls `body` with the text's UTF-8. `utf8.span` is not safe: the bytes of a short text are in the value itself, so
  /// the span of a temporary value points to a place on the stack that the optimizer gives to other values
  /// (https://github.com/swiftlang/swift/issues/81931).
  @inlinable
  @inline(__always)
  public func withUTF8Bytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    var text = self
    // Safe: the span does not leave the closure that has the bytes.
    return text.withUTF8 { body(unsafe Span(_unsafeElements: $0)) }
  }
}

/// The basic appends of every byte writer: literals, numbers and JSON strings, without an intermediate `String`.
extension [UInt8] {
  /// Appends the bytes of a literal.
  @inlinable
  public mutating func append(_ literal: StaticString) {
    // Safe: the bytes of a literal live as long as the program. A string literal has a pointer representation.
    unsafe append(contentsOf: UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
  }

  /// Appends the UTF-8 of `text`. A string's view would append it byte by byte.
  @inlinable
  public mutating func append(utf8 text: String) { text.withUTF8Bytes { append(copying: $0) } }

  /// Appends a copy of `bytes`.
  @inlinable
  public mutating func append(copying bytes: Span<UInt8>) {
    // Safe: the buffer is read within the closure only.
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }

  /// Appends `number` in decimal, with leading zeros up to `width` digits (at most 20).
  public mutating func append(decimal number: Int, width: Int = 1) {
    append(addingCapacity: OutputSpan<UInt8>.mostDecimalDigits + 1) { (output: inout OutputSpan<UInt8>) in
      output.append(decimal: number, width: width)
    }
  }

  /// Appends text as a JSON string with its quotes (RFC 8259 §7).
  public mutating func append(jsonString text: String) {
    append(UInt8(ascii: "\""))
    if text.withUTF8Bytes({ $0.needsJSONEscape }) {
      for byte in text.utf8 { append(jsonByte: byte) }
    } else {
      append(utf8: text)
    }
    append(UInt8(ascii: "\""))
  }

  private mutating func append(jsonByte byte: UInt8) {
    guard byte.needsJSONEscape else { return append(byte) }
    if byte.isControl {
      append("\\u00")
      append(hexadecimal: byte)
    } else {
      append(UInt8(ascii: "\\"))
      append(byte)
    }
  }
}

/// Appends to an array that has grown once for several parts: each growth checks whether the array is shared and large
/// enough, which takes longer than to copy a few bytes. To let an empty array grow costs less than `init(capacity:)`,
/// which looks up the type of the array's storage each time.
extension OutputSpan<UInt8> {
  /// Appends a copy of `bytes`. Traps without room for them.
  @inlinable
  @inline(__always)
  public mutating func append(copying bytes: Span<UInt8>) {
    unsafe withUnsafeMutableBufferPointer { buffer, count in
      // Safe: the slice is within the buffer, or it traps, and all of it is initialised.
      let room = unsafe UnsafeMutableBufferPointer(rebasing: buffer[count..<count + bytes.count])
      unsafe bytes.withUnsafeBufferPointer { _ = unsafe room.initialize(fromContentsOf: $0) }
      count += bytes.count
    }
  }

  /// Appends the UTF-8 of `text`. Traps without room for it.
  @inlinable
  @inline(__always)
  public mutating func append(utf8 text: String) { text.withUTF8Bytes { append(copying: $0) } }

  /// Appends the bytes of a literal. Traps without room for them.
  @inlinable
  @inline(__always)
  public mutating func append(_ literal: StaticString) {
    // Safe: the bytes of a literal live as long as the program. A string literal has a pointer representation.
    let bytes = unsafe UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount)
    append(copying: unsafe Span(_unsafeElements: bytes))
  }

  static var mostDecimalDigits: Int { 20 }

  /// Appends `number` in decimal, with leading zeros up to `width` digits (at most 20). Traps without room.
  public mutating func append(decimal number: Int, width: Int = 1) {
    if number < 0 { append(UInt8(ascii: "-")) }
    var rest = number.magnitude
    // 10²⁰ has no place in 64 bits, so the count ends there without a comparison.
    var digits = 1
    var next: UInt = 10
    while digits < Self.mostDecimalDigits, rest >= next {
      digits += 1
      next &*= 10
    }
    digits = max(digits, min(width, Self.mostDecimalDigits))
    unsafe withUnsafeMutableBufferPointer { buffer, count in
      let end = count + digits
      precondition(end <= buffer.count)
      var index = end
      while index > count {
        index &-= 1
        // Safe: the index is from `count` to below `end`, so all of these bytes are initialised and in the buffer.
        unsafe buffer.initializeElement(at: index, to: UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10))
        rest /= 10
      }
      count = end
    }
  }

  /// Appends the two digits of a number below 100.
  @inlinable
  @inline(__always)
  public mutating func append(twoDigits number: Int) {
    append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: number / 10))
    append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: number % 10))
  }
}

extension Span<UInt8> {
  /// Whether a JSON string contains any of the bytes only as an escape. Most strings have none.
  fileprivate var needsJSONEscape: Bool {
    var index = firstMark(from: 0, to: count) { word in
      word.marksOfControls | word.marks(of: 0x7f) | word.marks(of: UInt8(ascii: "\""))
        | word.marks(of: UInt8(ascii: "\\"))
    }
    while index < count, !self[index].needsJSONEscape { index &+= 1 }
    return index < count
  }
}

extension UInt8 {
  /// Whether a JSON string contains the byte only as an escape (RFC 8259 §7). DEL need not be one, but is a control.
  fileprivate var needsJSONEscape: Bool { isControl || self == UInt8(ascii: "\"") || self == UInt8(ascii: "\\") }
}

/// Formats external text for messages to people.
package enum Printable {
  /// Returns the text in quotes if it is short printable ASCII, otherwise only its size. So neither a terminal escape
  /// nor a secret that was pasted into the wrong place reaches a log.
  package static func quote(_ text: some StringProtocol, limit: Int = 80) -> String {
    let bytes = text.utf8
    guard bytes.count <= limit, bytes.allSatisfy({ (0x20...0x7E).contains($0) }), !holdsCredentials(text) else {
      return "(\(bytes.count) bytes)"
    }
    return "“\(text)”"
  }

  /// Returns whether the text may have a user and a password in front of a host, as in `https://user:password@host` or
  /// `user:password@host` (RFC 3986 §3.2.1). The user alone may be a token.
  package static func holdsCredentials(_ text: some StringProtocol) -> Bool {
    let bytes = text.utf8
    guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else { return false }
    return bytes[colon...].contains(UInt8(ascii: "@"))
  }

  /// Returns the absolute form of a path. A relative path is resolved against the working directory.
  package static func absolute(_ path: String) -> String {
    guard !path.hasPrefix("/"), let folder = unsafe getcwd(nil, 0) else { return path }
    defer { unsafe free(folder) }
    let root = unsafe String(cString: folder)
    return root == "/" ? "/\(path)" : "\(root)/\(path)"
  }

  /// Applies ``quote(_:limit:)`` to bytes from outside.
  package static func quote(_ bytes: ByteString, limit: Int = 80) -> String { quote(bytes.text, limit: limit) }
}
