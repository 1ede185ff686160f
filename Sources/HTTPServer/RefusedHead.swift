import Bytes
import HTTP1
import HTTPMessages

/// A head over HTTP/1.1 that the codec has refused, while the rest of it is read for a few fields. An object, because nearly
/// no connection has one, and each would have room for it.
///
/// A page reads a refusal only if it has the CORS fields for its origin, and the line with the origin may follow what is
/// refused. So the connection reads on to the end of the head, keeps the lines of CORS and nothing else, and then responds.
final class RefusedHead {
  let refusal: ErrorResponse
  private(set) var values: [(name: StaticString, value: [UInt8])] = []
  /// Whether the head has ended, or nothing more of it is to be read.
  private(set) var isComplete: Bool

  /// The maximum number of bytes of a refused head that are read: twice as many as a head may have.
  static let mostBytes = 81_920
  /// The maximum length of a line that is kept. The lines of the fields are shorter.
  static let mostBytesOfLine = 600
  /// The maximum number of values. Each field occurs once in a request of a browser, and twice counts as malformed.
  private static let mostValues = 6

  /// The names of the fields in lower case; none to read nothing.
  private let names: [StaticString]
  private var left = RefusedHead.mostBytes
  private var line: [UInt8] = []
  private var hasRequestLine = false

  /// Creates a head that begins with the bytes of the next `read`.
  init(_ refusal: ErrorResponse, of error: RequestError, keeping names: [StaticString]) {
    (self.refusal, self.names) = (refusal, names)
    isComplete = !error.leavesLinesClear || names.isEmpty
  }

  var heldBytes: Int { line.capacity + values.reduce(0) { $0 + $1.value.capacity } }

  func read(_ bytes: Span<UInt8>) {
    for index in bytes.indices where !isComplete {
      left -= 1
      if left == 0 {
        isComplete = true
      } else if bytes[index] == 0x0A {
        endLine()
      } else if line.count <= Self.mostBytesOfLine {
        line.append(bytes[index])
      }
    }
  }

  private func endLine() {
    defer { line.removeAll(keepingCapacity: true) }
    if line.last == 0x0D { line.removeLast() }
    guard hasRequestLine else { return hasRequestLine = !line.isEmpty }
    guard !line.isEmpty else { return isComplete = true }
    guard line.count < Self.mostBytesOfLine, values.count < Self.mostValues else { return }
    // Of a local value: with the optimizer, Swift 6.3.1 lets no span of a stored property into a condition.
    let bytes = line
    for name in names {
      let length = name.utf8CodeUnitCount
      guard bytes.count > length, bytes[length] == UInt8(ascii: ":") else { continue }
      let isNamed = bytes.span.equalsIgnoringCase(0..<length, name)
      if isNamed { values.append((name, Array(bytes[bytes.span.trimmingWhitespace(length + 1..<bytes.count)]))) }
    }
  }
}
