import TestSupport

/// Frames as bytes (RFC 9113 §4.1), valid or not, as a hostile server would send them.
enum H2Frame {
  /// Frame types (RFC 9113 §6).
  enum Kind: UInt8 {
    case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate, continuation
  }

  static let endStream: UInt8 = 0x1
  static let ack: UInt8 = 0x1
  static let endHeaders: UInt8 = 0x4

  /// One frame.
  static func bytes(_ kind: Kind, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    [UInt8(payload.count >> 16 & 0xff), UInt8(payload.count >> 8 & 0xff), UInt8(payload.count & 0xff)]
      + [kind.rawValue, flags] + number(stream) + payload
  }

  /// SETTINGS without a value, the first frame of every server.
  static let settings = bytes(.settings)

  static func settings(_ identifier: UInt16, _ value: UInt32) -> [UInt8] {
    bytes(.settings, [UInt8(identifier >> 8), UInt8(identifier & 0xff)] + number(value))
  }

  /// The head of a response with the status 200 (RFC 7541 Appendix A, index 8).
  static func ok(_ stream: UInt32, flags: UInt8 = endHeaders) -> [UInt8] {
    bytes(.headers, flags: flags, stream: stream, [0x88])
  }

  static func goAway(_ code: UInt32, last: UInt32, _ text: String = "") -> [UInt8] {
    bytes(.goAway, number(last) + number(code) + Array(text.utf8))
  }

  static func reset(_ stream: UInt32, _ code: UInt32) -> [UInt8] {
    bytes(.resetStream, stream: stream, number(code))
  }

  static func windowUpdate(_ increment: UInt32, stream: UInt32 = 0) -> [UInt8] {
    bytes(.windowUpdate, stream: stream, number(increment))
  }

  static func number(_ value: UInt32) -> [UInt8] {
    (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) }
  }
}

extension PeerConnection {
  /// Receives a client's preface and the heads of `count` requests, without a response.
  /// - Returns: The streams of the requests.
  func http2Requests(_ count: Int) throws -> [UInt32] {
    _ = try bytes(through: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    return try moreHTTP2Requests(count)
  }

  /// Receives the heads of `count` further requests.
  func moreHTTP2Requests(_ count: Int) throws -> [UInt32] {
    var streams: [UInt32] = []
    while streams.count < count {
      let header = try bytes(9)
      _ = try bytes(header.prefix(3).reduce(0) { $0 << 8 | Int($1) })
      guard header[3] == H2Frame.Kind.headers.rawValue else { continue }
      streams.append(header[5...].reduce(0) { $0 << 8 | UInt32($1) })
    }
    return streams
  }
}
