import Glibc

/// What every writer of bytes here is made of: literals, numbers and JSON strings, appended without a string on the way.
extension [UInt8] {
  /// Appends the bytes of a literal.
  @inlinable
  public mutating func append(_ literal: StaticString) {
    // Safe: a literal's bytes live as long as the program. One that is spelled out has a pointer representation.
    unsafe append(contentsOf: UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
  }

  /// Appends bytes that live elsewhere.
  @inlinable
  public mutating func append(copying bytes: Span<UInt8>) {
    // Safe: the buffer is read within the closure only.
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }

  /// Appends `number` in decimal, with zeros in front up to `width` digits, at most 20.
  public mutating func append(decimal number: Int, width: Int = 1) {
    if number < 0 { append(UInt8(ascii: "-")) }
    var digits = InlineArray<20, UInt8>(repeating: UInt8(ascii: "0"))
    var rest = number.magnitude
    var start = 20
    repeat {
      start -= 1
      digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    } while rest > 0
    start = Swift.min(start, 20 - Swift.min(width, 20))
    append(addingCapacity: 20 - start) { (output: inout OutputSpan<UInt8>) in
      for index in start..<20 { output.append(digits[index]) }
    }
  }

  /// Appends text as a JSON string (RFC 8259 §7), quotes included.
  public mutating func append(jsonString text: String) {
    append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        append(UInt8(ascii: "\\"))
        append(byte)
      case 0..<0x20, 0x7f:
        append("\\u00")
        append(hexadecimal: byte)
      default:
        append(byte)
      }
    }
    append(UInt8(ascii: "\""))
  }
}

/// Foreign text in sentences for people.
package enum Printable {
  /// The text in quotes if it is short, harmless ASCII; else only its size, so that neither a terminal escape nor a
  /// secret pasted into the wrong place gets into a log.
  package static func quote(_ text: some StringProtocol, limit: Int = 80) -> String {
    let bytes = text.utf8
    guard bytes.count <= limit, bytes.allSatisfy({ (0x20...0x7E).contains($0) }) else {
      return "(\(bytes.count) bytes)"
    }
    return "“\(text)”"
  }

  /// A path as it is found from the root, also if it was written relative to the working directory.
  package static func absolute(_ path: String) -> String {
    guard !path.hasPrefix("/"), let folder = unsafe getcwd(nil, 0) else { return path }
    defer { unsafe free(folder) }
    let root = unsafe String(cString: folder)
    return root == "/" ? "/\(path)" : "\(root)/\(path)"
  }

  /// ``quote(_:limit:)`` for bytes from outside.
  package static func quote(_ bytes: ByteString, limit: Int = 80) -> String { quote(bytes.text, limit: limit) }
}

/// A date in the proleptic Gregorian calendar.
public struct CivilDate: Sendable, Equatable {
  /// The year; 0 is 1 BC.
  public let year: Int
  /// 1 to 12.
  public let month: Int
  /// 1 to 31.
  public let day: Int

  /// The date so many days after 1970-01-01, before it if negative.
  ///
  /// Counts in eras of 400 years that begin on 1 March, so that the leap day is a year's last (Howard Hinnant,
  /// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
  public init(daysSinceEpoch: Int) {
    let shifted = daysSinceEpoch + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
  }
}
