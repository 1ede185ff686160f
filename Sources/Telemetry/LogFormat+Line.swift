import Bytes

// How a line is made, in a buffer that the caller owns and that is never copied.
//
// Whatever a value holds, the line stays one line and its fields stay apart: control characters are escaped in either
// format, so no request can forge a line or drive a terminal.
extension LogFormat {
  /// Names that every line has; metadata of such a name gets an underscore before it.
  static let reservedNames: Set<String> = ["time", "level", "message", "label"]

  /// Begins a line.
  func begin(_ bytes: inout [UInt8], time: WallTime, level: StaticString, message: String) {
    switch self {
    case .json:
      bytes.append("{\"time\":\"")
      bytes.append(time)
      bytes.append("\",\"level\":\"")
      bytes.append(level)
      bytes.append("\",\"message\":")
      bytes.appendJSONString(message)
    case .text:
      bytes.append(time)
      bytes.append(" ")
      bytes.append(level)
      bytes.append(" ")
      bytes.appendEscaped(message, quote: nil)
    }
  }

  /// Ends the line.
  func end(_ bytes: inout [UInt8]) {
    bytes.append(self == .json ? "}\n" : "\n")
  }

  /// A field whose value is text.
  func field(_ bytes: inout [UInt8], _ name: String, _ value: String) {
    begin(&bytes, field: name)
    string(&bytes, value)
  }

  /// A field whose value is text, with a name that needs no escaping.
  func field(_ bytes: inout [UInt8], literal name: StaticString, _ value: String) {
    begin(&bytes, literal: name)
    string(&bytes, value)
  }

  /// A field whose value is a word of the program, such as a route's template, whose characters are safe in either format.
  func field(_ bytes: inout [UInt8], literal name: StaticString, word: StaticString) {
    begin(&bytes, literal: name)
    quote(&bytes)
    bytes.append(word)
    quote(&bytes)
  }

  /// A field whose value is a token's digest, which is nothing but digits.
  func field(_ bytes: inout [UInt8], literal name: StaticString, _ digest: TokenDigest) {
    begin(&bytes, literal: name)
    quote(&bytes)
    bytes.append(contentsOf: digest.hexadecimal.utf8)
    quote(&bytes)
  }

  /// A field whose value is a number.
  func field(_ bytes: inout [UInt8], literal name: StaticString, _ value: Int) {
    begin(&bytes, literal: name)
    bytes.append(decimal: value)
  }

  /// A field whose value is `duration` in milliseconds, to the microsecond.
  func field(_ bytes: inout [UInt8], literal name: StaticString, milliseconds duration: Duration) {
    begin(&bytes, literal: name)
    bytes.appendMilliseconds(duration)
  }

  /// A field whose value is a request's identifier.
  func field(_ bytes: inout [UInt8], literal name: StaticString, _ id: RequestID) {
    begin(&bytes, literal: name)
    // Its characters are safe in either format.
    quote(&bytes)
    bytes.append(id)
    quote(&bytes)
  }

  /// A field whose value is a list.
  func field(_ bytes: inout [UInt8], _ name: String, _ values: [String]) {
    begin(&bytes, field: name)
    bytes.append("[")
    for (index, value) in values.enumerated() {
      if index > 0 { bytes.append(",") }
      bytes.appendJSONString(value)
    }
    bytes.append("]")
  }

  private func begin(_ bytes: inout [UInt8], field name: String) {
    switch self {
    case .json:
      bytes.append(",")
      bytes.appendJSONString(name)
      bytes.append(":")
    case .text:
      bytes.append(" ")
      bytes.appendTextValue(name)
      bytes.append("=")
    }
  }

  private func begin(_ bytes: inout [UInt8], literal name: StaticString) {
    bytes.append(self == .json ? ",\"" : " ")
    bytes.append(name)
    bytes.append(self == .json ? "\":" : "=")
  }

  /// The mark before and behind text that needs no escaping.
  private func quote(_ bytes: inout [UInt8]) {
    if self == .json { bytes.append("\"") }
  }

  private func string(_ bytes: inout [UInt8], _ value: String) {
    switch self {
    case .json: bytes.appendJSONString(value)
    case .text: bytes.appendTextValue(value)
    }
  }
}
