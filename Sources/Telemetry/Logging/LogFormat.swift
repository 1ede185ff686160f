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

// A line is encoded into memory that has room for all of it, which costs half as much as growing an array piece by piece.
//
// It stays one line and its fields stay separate, for any value: both formats escape control characters, so no request can
// forge a line or control a terminal.
extension LogFormat {
  /// The names that every line has. Metadata with such a name gets an underscore as prefix.
  static let reservedNames: Set<String> = ["time", "level", "message", "label"]
  /// Room in bytes for everything in a record but its texts: time, names, numbers, identifiers and words of the program.
  static let roomForRecord = 1024

  /// Returns room in bytes for texts with so many bytes in all: an escape takes six (`\u001b`).
  static func room(forTexts bytes: Int) -> Int { 6 * bytes }

  /// Appends a line of the program to `bytes`, whose message and level need no escaping.
  ///
  /// - Parameter room: Room in bytes for the texts of the fields.
  @inline(__always)
  func line(
    to bytes: inout [UInt8], _ time: LineTime, level: StaticString = "info", _ message: StaticString, room: Int = 0,
    fields: (inout OutputSpan<UInt8>) -> Void
  ) {
    bytes.append(addingCapacity: Self.roomForRecord + room) { (line: inout OutputSpan<UInt8>) in
      begin(&line, time: time, level: level)
      quote(&line)
      line.append(message)
      quote(&line)
      fields(&line)
      end(&line)
    }
  }

  func begin(_ line: inout OutputSpan<UInt8>, time: LineTime, level: StaticString, message: String) {
    begin(&line, time: time, level: level)
    if self == .json { line.appendJSONString(message) } else { line.appendEscaped(message, quote: nil) }
  }

  private func begin(_ line: inout OutputSpan<UInt8>, time: LineTime, level: StaticString) {
    let isJSON = self == .json
    if isJSON { line.append("{\"time\":\"") }
    line.append(copying: time.text.span)
    line.append(isJSON ? "\",\"level\":\"" : " ")
    line.append(level)
    line.append(isJSON ? "\",\"message\":" : " ")
  }

  func end(_ line: inout OutputSpan<UInt8>) { line.append(self == .json ? "}\n" : "\n") }

  func field(_ line: inout OutputSpan<UInt8>, _ name: String, _ value: String) {
    begin(&line, field: name)
    string(&line, value)
  }

  func field(_ line: inout OutputSpan<UInt8>, json name: StaticString, _ value: String) {
    begin(&line, json: name)
    string(&line, value)
  }

  /// Appends a field with a word of the program, such as a route's template. Its characters are safe in both formats.
  func field(_ line: inout OutputSpan<UInt8>, json name: StaticString, word: StaticString) {
    quoted(&line, json: name) { $0.append(word) }
  }

  func field(_ line: inout OutputSpan<UInt8>, json name: StaticString, _ digest: TokenDigest) {
    quoted(&line, json: name) { $0.append(hexadecimal: digest.bytes.span) }
  }

  func field(_ line: inout OutputSpan<UInt8>, json name: StaticString, _ value: Int) {
    begin(&line, json: name)
    line.append(decimal: value)
  }

  func field(_ line: inout OutputSpan<UInt8>, json name: StaticString, milliseconds duration: Duration) {
    begin(&line, json: name)
    line.appendMilliseconds(duration)
  }

  func field(_ line: inout OutputSpan<UInt8>, json name: StaticString, _ id: RequestID) {
    quoted(&line, json: name) { $0.append(id) }
  }

  /// Appends the identifiers of a request's trace and of its span, by the names of OpenTelemetry.
  func field(_ line: inout OutputSpan<UInt8>, _ trace: RequestTrace) {
    quoted(&line, json: #","trace_id":"#) { $0.append(trace.traceID) }
    quoted(&line, json: #","span_id":"#) { $0.append(trace.spanID) }
  }

  /// Appends a text that needs no escaping in either format.
  @inline(__always)
  private func quoted(
    _ line: inout OutputSpan<UInt8>, json name: StaticString, _ append: (inout OutputSpan<UInt8>) -> Void
  ) {
    begin(&line, json: name)
    quote(&line)
    append(&line)
    quote(&line)
  }

  func field(_ line: inout OutputSpan<UInt8>, json name: StaticString, _ values: [String]) {
    begin(&line, json: name)
    list(&line, values)
  }

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
    line.append(self == .json ? "," : " ")
    string(&line, name)
    line.append(self == .json ? ":" : "=")
  }

  /// Begins a field by what precedes its value in JSON, such as `,"http.route":`. The text format has ` http.route=`.
  @inline(__always)
  private func begin(_ line: inout OutputSpan<UInt8>, json name: StaticString) {
    if self == .json { return line.append(name) }
    line.append(UInt8(ascii: " "))
    // Safe: the bytes of a literal live as long as the program. A string literal has a pointer representation.
    let bytes = unsafe UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
    line.append(copying: unsafe Span(_unsafeElements: bytes).extracting(2..<bytes.count - 2))
    line.append(UInt8(ascii: "="))
  }

  private func quote(_ line: inout OutputSpan<UInt8>) { if self == .json { line.append(UInt8(ascii: "\"")) } }

  private func string(_ line: inout OutputSpan<UInt8>, _ value: String) {
    if self == .json { line.appendJSONString(value) } else { line.appendTextValue(value) }
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
    let isWord = text.utf8.allSatisfy { $0.isPlain && $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "=") }
    if isWord, !text.isEmpty { append(utf8: text) } else { appendJSONString(text) }
  }

  /// Appends `text` with all characters that are not plain escaped as in JSON. `quote` is nil if it is not in quotes.
  mutating func appendEscaped(_ text: String, quote: UInt8?) {
    // Nearly all logged texts are plain, and are copied at once.
    if text.withUTF8Bytes({ $0.isPlain }) { return append(utf8: text) }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"" where quote == nil: append("\"")
      case "\"": append("\\\"")
      case "\\": append("\\\\")
      case "\n": append("\\n")
      case "\r": append("\\r")
      case "\t": append("\\t")
      case _ where scalar.isInvisible:
        // All of these are in the basic plane, so four digits are enough.
        append("\\u")
        let bytes: InlineArray<2, UInt8> = [UInt8(scalar.value >> 8), UInt8(scalar.value & 0xFF)]
        append(hexadecimal: bytes.span)
      default: append(utf8: String(scalar))
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
}

extension Span<UInt8> {
  fileprivate var isPlain: Bool {
    var index = firstMark(from: 0, to: count) { word in
      word | word.marksOfControls | word.marks(of: 0x7F) | word.marks(of: UInt8(ascii: "\""))
        | word.marks(of: UInt8(ascii: "\\"))
    }
    while index < count, self[index].isPlain { index += 1 }
    return index == count
  }
}

extension UInt8 {
  /// Whether the byte is printable ASCII and needs no escape between quotes.
  fileprivate var isPlain: Bool {
    (0x20..<0x7F).contains(self) && self != UInt8(ascii: "\"") && self != UInt8(ascii: "\\")
  }
}

extension UnicodeScalar {
  /// Whether this is a control character, a line separator, or one that changes the text direction, which can control a
  /// terminal or mislead a reader (Unicode TR36 §3.1).
  fileprivate var isInvisible: Bool {
    switch value {
    case 0..<0x20, 0x7F..<0xA0, 0x200B...0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF: true
    default: false
    }
  }
}

/// The time of a line in UTC, in the format of RFC 3339: `2026-01-31T23:59:59.999Z`. The text of years beyond 9999 is wrong.
///
/// Lines follow each other quickly, so only another second makes the whole text again.
struct LineTime: Sendable {
  private(set) var text: InlineArray<24, UInt8>
  /// Seconds since 1970-01-01T00:00:00Z, without leap seconds.
  private var second: Int

  init(milliseconds: Int) {
    let (second, rest) = Self.floorDivision(milliseconds, by: 1000)
    let (days, time) = Self.floorDivision(second, by: 86_400)
    let date = CivilDate(daysSinceEpoch: days)
    self.second = second
    text = InlineArray { (output: inout OutputSpan<UInt8>) in
      output.append(twoDigits: date.year / 100 % 100)
      output.append(twoDigits: date.year % 100)
      output.append("-")
      output.append(twoDigits: date.month)
      output.append("-")
      output.append(twoDigits: date.day)
      output.append("T")
      output.append(twoDigits: time / 3600)
      output.append(":")
      output.append(twoDigits: time / 60 % 60)
      output.append(":")
      output.append(twoDigits: time % 60)
      output.append(".000Z")
    }
    write(milliseconds: rest)
  }

  static func now() -> LineTime { LineTime(milliseconds: present()) }

  mutating func set(milliseconds: Int) {
    let (second, rest) = Self.floorDivision(milliseconds, by: 1000)
    if second == self.second { write(milliseconds: rest) } else { self = LineTime(milliseconds: milliseconds) }
  }

  /// Returns the present time in milliseconds.
  static func present() -> Int {
    var time = timespec()
    // CLOCK_REALTIME always exists, so there is no failure to handle.
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return time.tv_sec * 1000 + time.tv_nsec / 1_000_000
  }

  private static func floorDivision(_ number: Int, by divisor: Int) -> (quotient: Int, remainder: Int) {
    let (quotient, remainder) = number.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }

  private mutating func write(milliseconds: Int) {
    text[20] = Self.digit(milliseconds / 100)
    text[21] = Self.digit(milliseconds / 10)
    text[22] = Self.digit(milliseconds)
  }

  private static func digit(_ number: Int) -> UInt8 { UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: number % 10) }
}

extension [UInt8] {
  /// Appends the time of day for a person: `15:04:05Z` and two spaces.
  mutating func appendClock(_ time: LineTime) {
    append(copying: time.text.span.extracting(11..<19))
    append("Z  ")
  }

  /// Appends the first `limit` bytes of `text`. Bytes that are not printable ASCII become `?`.
  mutating func appendWord(_ text: String, atMost limit: Int) { appendWord(text.utf8, atMost: limit) }

  mutating func appendWord(_ text: some Sequence<UInt8>, atMost limit: Int) {
    for byte in text.prefix(limit) { append((0x21..<0x7F).contains(byte) ? byte : UInt8(ascii: "?")) }
  }
}
