import Bytes
import Glibc
import Tracing

/// The format of log lines.
public enum LogFormat: String, Sendable, CaseIterable {
  /// One JSON object per line, for machines.
  case json
  /// Words and `key=value` pairs, for a terminal.
  case text
}

// Encoding of a line into memory that has room for all of it, which costs half as much as growing an array piece by piece.
//
// A line stays one line and its fields stay separate, for any value: both formats escape control characters, so no
// request can forge a line or control a terminal.
extension LogFormat {
  /// The names that every line has. Metadata with such a name gets an underscore as prefix.
  static let reservedNames: Set<String> = ["time", "level", "message", "label"]

  /// Room in bytes for everything in a record but its texts: time, names, numbers, identifiers and words of the program.
  static let roomForRecord = 1024

  /// Returns room in bytes for texts with so many bytes in all: an escape takes six (`\u001b`).
  static func room(forTexts bytes: Int) -> Int { 6 * bytes }

  /// Begins a line.
  func begin(_ line: inout OutputSpan<UInt8>, time: WallTime, level: StaticString, message: String) {
    begin(&line, time: time, level: level)
    switch self {
    case .json: line.appendJSONString(message)
    case .text: line.appendEscaped(message, quote: nil)
    }
  }

  /// Begins a line with a message of the program, which needs no escaping.
  func begin(_ line: inout OutputSpan<UInt8>, time: WallTime, level: StaticString, literal message: StaticString) {
    begin(&line, time: time, level: level)
    quote(&line)
    line.append(message)
    quote(&line)
  }

  private func begin(_ line: inout OutputSpan<UInt8>, time: WallTime, level: StaticString) {
    let isJSON = self == .json
    if isJSON { line.append("{\"time\":\"") }
    line.append(time)
    line.append(isJSON ? "\",\"level\":\"" : " ")
    line.append(level)
    line.append(isJSON ? "\",\"message\":" : " ")
  }

  /// Ends the line.
  func end(_ line: inout OutputSpan<UInt8>) {
    line.append(self == .json ? "}\n" : "\n")
  }

  /// Appends a field with a text value.
  func field(_ line: inout OutputSpan<UInt8>, _ name: String, _ value: String) {
    begin(&line, field: name)
    string(&line, value)
  }

  /// Appends a field with a text value, and a name that needs no escaping.
  func field(_ line: inout OutputSpan<UInt8>, literal name: StaticString, _ value: String) {
    begin(&line, literal: name)
    string(&line, value)
  }

  /// Appends a field with a word of the program, such as a route's template. Its characters are safe in both formats.
  func field(_ line: inout OutputSpan<UInt8>, literal name: StaticString, word: StaticString) {
    begin(&line, literal: name)
    quote(&line)
    line.append(word)
    quote(&line)
  }

  /// Appends a field with a token's digest, in hexadecimal.
  func field(_ line: inout OutputSpan<UInt8>, literal name: StaticString, _ digest: TokenDigest) {
    begin(&line, literal: name)
    quote(&line)
    line.append(hexadecimal: digest.bytes.span)
    quote(&line)
  }

  /// Appends a field with a number.
  func field(_ line: inout OutputSpan<UInt8>, literal name: StaticString, _ value: Int) {
    begin(&line, literal: name)
    line.append(decimal: value)
  }

  /// Appends a field with `duration` in milliseconds, with microsecond precision.
  func field(_ line: inout OutputSpan<UInt8>, literal name: StaticString, milliseconds duration: Duration) {
    begin(&line, literal: name)
    line.appendMilliseconds(duration)
  }

  /// Appends a field with a request's identifier.
  func field(_ line: inout OutputSpan<UInt8>, literal name: StaticString, _ id: RequestID) {
    begin(&line, literal: name)
    // Its characters are safe in both formats.
    quote(&line)
    line.append(id)
    quote(&line)
  }

  /// Appends the identifiers of a request's trace and of its span, by the names of OpenTelemetry.
  func field(_ line: inout OutputSpan<UInt8>, _ trace: RequestTrace) {
    begin(&line, literal: "trace_id")
    quote(&line)
    line.append(trace.traceID)
    quote(&line)
    begin(&line, literal: "span_id")
    quote(&line)
    line.append(trace.spanID)
    quote(&line)
  }

  /// Appends a field with a list of texts, and a name that needs no escaping.
  func field(_ line: inout OutputSpan<UInt8>, literal name: StaticString, _ values: [String]) {
    begin(&line, literal: name)
    list(&line, values)
  }

  /// Appends a field with a list of texts.
  func field(_ line: inout OutputSpan<UInt8>, _ name: String, _ values: [String]) {
    begin(&line, field: name)
    list(&line, values)
  }

  private func list(_ line: inout OutputSpan<UInt8>, _ values: [String]) {
    line.append("[")
    for (index, value) in values.enumerated() {
      if index > 0 { line.append(",") }
      line.appendJSONString(value)
    }
    line.append("]")
  }

  private func begin(_ line: inout OutputSpan<UInt8>, field name: String) {
    switch self {
    case .json:
      line.append(",")
      line.appendJSONString(name)
      line.append(":")
    case .text:
      line.append(" ")
      line.appendTextValue(name)
      line.append("=")
    }
  }

  private func begin(_ line: inout OutputSpan<UInt8>, literal name: StaticString) {
    let isJSON = self == .json
    line.append(isJSON ? UInt8(ascii: ",") : UInt8(ascii: " "))
    if isJSON { line.append(UInt8(ascii: "\"")) }
    line.append(name)
    if isJSON { line.append(UInt8(ascii: "\"")) }
    line.append(isJSON ? UInt8(ascii: ":") : UInt8(ascii: "="))
  }

  /// Appends the quotation mark around text that needs no escaping.
  private func quote(_ line: inout OutputSpan<UInt8>) {
    if self == .json { line.append(UInt8(ascii: "\"")) }
  }

  private func string(_ line: inout OutputSpan<UInt8>, _ value: String) {
    switch self {
    case .json: line.appendJSONString(value)
    case .text: line.appendTextValue(value)
    }
  }
}

extension OutputSpan<UInt8> {
  /// Appends `text` as a JSON string (RFC 8259 §7).
  mutating func appendJSONString(_ text: String) {
    append(UInt8(ascii: "\""))
    appendEscaped(text, quote: UInt8(ascii: "\""))
    append(UInt8(ascii: "\""))
  }

  /// Appends `text` without quotes if it is one plain word, else as a JSON string.
  mutating func appendTextValue(_ text: String) {
    let isWord =
      !text.isEmpty
      && text.utf8.allSatisfy { $0.isPlain && $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "=") }
    if isWord { append(copying: text.utf8.span) } else { appendJSONString(text) }
  }

  /// Appends `text` with all characters that are not plain escaped as in JSON. `quote` is nil if the text is not in
  /// quotes.
  mutating func appendEscaped(_ text: String, quote: UInt8?) {
    // Nearly all logged texts are plain, and are copied at once.
    let bytes = text.utf8.span
    if bytes.isPlain { return append(copying: bytes) }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"" where quote == nil: append(UInt8(ascii: "\""))
      case "\"", "\\":
        append(UInt8(ascii: "\\"))
        append(UInt8(truncatingIfNeeded: scalar.value))
      case "\n": append("\\n")
      case "\r": append("\\r")
      case "\t": append("\\t")
      default:
        if scalar.isInvisible { appendUnicodeEscape(scalar) } else { append(copying: String(scalar).utf8.span) }
      }
    }
  }

  /// Appends `duration` in milliseconds with three decimals, or 0 if it is negative.
  mutating func appendMilliseconds(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    let microseconds = Int(attoseconds / 1_000_000_000_000)
    let (scaled, overflow) = Int(seconds).multipliedReportingOverflow(by: 1000)
    let milliseconds = overflow ? Int.max : scaled.addingReportingOverflow(microseconds / 1000).partialValue
    guard duration >= .zero, milliseconds >= 0 else { return append("0.000") }
    append(decimal: milliseconds)
    append(UInt8(ascii: "."))
    append(decimal: microseconds % 1000, width: 3)
  }

  private mutating func appendUnicodeEscape(_ scalar: UnicodeScalar) {
    // All invisible characters below are in the basic plane, so four digits are enough.
    append("\\u")
    for shift in stride(from: 12, through: 0, by: -4) {
      let digit = UInt8(truncatingIfNeeded: scalar.value >> UInt32(shift)) & 0xF
      append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
    }
  }
}

extension Span<UInt8> {
  fileprivate var isPlain: Bool {
    for index in indices where !self[index].isPlain { return false }
    return true
  }
}

extension UInt8 {
  /// Whether the byte is printable ASCII and needs no escape between quotes.
  fileprivate var isPlain: Bool {
    (0x20..<0x7F).contains(self) && self != UInt8(ascii: "\"") && self != UInt8(ascii: "\\")
  }
}

extension UnicodeScalar {
  /// Whether this is a control character, a line separator, or a character that changes the text direction. Such
  /// characters can control a terminal or mislead a reader (Unicode TR36 §3.1).
  fileprivate var isInvisible: Bool {
    switch value {
    case 0..<0x20, 0x7F..<0xA0, 0x200B...0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF: true
    default: false
    }
  }
}

/// A time in UTC, with millisecond precision.
struct WallTime: Sendable, Equatable {
  /// Milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
  let milliseconds: Int64

  /// Returns the present time.
  static func now() -> WallTime {
    var time = timespec()
    // CLOCK_REALTIME always exists, so there is no failure to handle.
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return WallTime(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }

  /// The date in UTC.
  var date: CivilDate { CivilDate(daysSinceEpoch: Int((milliseconds - millisecondOfDay) / 86_400_000)) }

  /// Milliseconds since midnight.
  var millisecondOfDay: Int64 {
    let remainder = milliseconds % 86_400_000
    return remainder < 0 ? remainder + 86_400_000 : remainder
  }
}

extension OutputSpan<UInt8> {
  /// Appends `time` in the format of RFC 3339: `2026-01-31T23:59:59.999Z`. RFC 3339 has no years beyond 9999; their
  /// output is wrong.
  mutating func append(_ time: WallTime) {
    let date = time.date
    append(twoDigits: date.year / 100 % 100)
    append(twoDigits: date.year % 100)
    append(UInt8(ascii: "-"))
    append(twoDigits: date.month)
    append(UInt8(ascii: "-"))
    append(twoDigits: date.day)
    append(UInt8(ascii: "T"))
    appendClock(time)
    let milliseconds = Int(time.millisecondOfDay) % 1000
    append(UInt8(ascii: "."))
    append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: milliseconds / 100))
    append(twoDigits: milliseconds % 100)
    append(UInt8(ascii: "Z"))
  }

  /// Appends the time of day: `23:59:59`.
  mutating func appendClock(_ time: WallTime) {
    let seconds = Int(time.millisecondOfDay) / 1000
    append(twoDigits: seconds / 3600)
    append(UInt8(ascii: ":"))
    append(twoDigits: seconds / 60 % 60)
    append(UInt8(ascii: ":"))
    append(twoDigits: seconds % 60)
  }
}
