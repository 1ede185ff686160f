/// A frame of HTTP/2 in its wire format (RFC 9113 §4.1).
struct WireFrame {
  let type: UInt8
  var flags: UInt8 = 0
  var stream: UInt8 = 0
  var content: [UInt8] = []

  /// Its bytes. `length` replaces that of the content.
  func bytes(length: Int? = nil) -> [UInt8] {
    let length = length ?? content.count
    return [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), type, flags, 0, 0, 0, stream]
      + content
  }

  /// The first four bytes of the content as a number, such as the code of RST_STREAM.
  var code: Int { content.prefix(4).reduce(0) { $0 << 8 | Int($1) } }

  /// All whole frames in `bytes`.
  static func all(in bytes: [UInt8]) -> [WireFrame] {
    var frames: [WireFrame] = []
    var rest = bytes[...]
    while rest.count >= 9 {
      let header = Array(rest.prefix(9))
      let length = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
      guard rest.count >= 9 + length else { break }
      frames.append(
        WireFrame(
          type: header[3], flags: header[4], stream: header[8], content: Array(rest.dropFirst(9).prefix(length))))
      rest = rest.dropFirst(9 + length)
    }
    return frames
  }

  static let data: UInt8 = 0
  static let headers: UInt8 = 1
  static let reset: UInt8 = 3
  static let ping: UInt8 = 6
  static let goAway: UInt8 = 7

  /// The preface and empty settings (RFC 9113 §3.4).
  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + WireFrame(type: 4).bytes()

  /// The header block of a request for `path` of http://a (RFC 7541 appendix A).
  static func block(_ path: String, isPost: Bool = false) -> [UInt8] {
    [isPost ? 0x83 : 0x82, 0x86, 0x04, UInt8(path.utf8.count)] + Array(path.utf8) + [0x01, 1, 0x61]
  }

  /// A request without content.
  static func get(_ path: String, stream: UInt8) -> [UInt8] {
    WireFrame(type: headers, flags: 0x5, stream: stream, content: block(path)).bytes()
  }

  /// The head of a request whose content follows.
  static func post(_ path: String, stream: UInt8) -> [UInt8] {
    WireFrame(type: headers, flags: 0x4, stream: stream, content: block(path, isPost: true)).bytes()
  }
}
