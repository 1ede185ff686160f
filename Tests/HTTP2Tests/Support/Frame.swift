/// A frame as bytes (RFC 9113 §4.1), valid or not, as a hostile peer would send it.
struct Frame: CustomStringConvertible {
  enum Kind: UInt8 {
    case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate, continuation
    case unknown = 0x77
  }

  static let endStream: UInt8 = 0x1
  static let ack: UInt8 = 0x1
  static let endHeaders: UInt8 = 0x4

  let bytes: [UInt8]

  /// Short, for the logs of tests.
  var description: String { "type \(bytes[3]) with \(bytes.count - 9) bytes" }

  init(_ kind: Kind, flags: UInt8 = 0, stream: Int32 = 0, _ payload: [UInt8] = []) {
    let length = payload.count
    bytes =
      [UInt8(truncatingIfNeeded: length >> 16), UInt8(truncatingIfNeeded: length >> 8), UInt8(length & 0xff)]
      + [kind.rawValue, flags] + Frame.number(UInt32(stream)) + payload
  }

  /// HEADERS whose fields are literals that enter no table (RFC 7541 §6.2.2).
  static func headers(
    _ fields: [(String, String)], stream: Int32 = 1, flags: UInt8 = Frame.endStream | Frame.endHeaders
  ) -> Frame {
    Frame(.headers, flags: flags, stream: stream, literals(fields))
  }

  static func literals(_ fields: [(String, String)]) -> [UInt8] {
    fields.flatMap { [0] + text(Array($0.0.utf8)) + text($0.1.unicodeScalars.map { UInt8($0.value) }) }
  }

  /// The first bytes of a client.
  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Frame(.settings).bytes

  static let get = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]

  static func number(_ value: UInt32) -> [UInt8] {
    (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) }
  }

  /// A string literal (RFC 7541 §5.2), with its length as an integer with a prefix of 7 bits (§5.1).
  private static func text(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
    var rest = bytes.count - 127
    var prefix: [UInt8] = [127]
    while rest >= 128 {
      prefix.append(UInt8(rest % 128 + 128))
      rest /= 128
    }
    return prefix + [UInt8(rest)] + bytes
  }
}
