import EventLoop
import HTTPServer
import TestSupport
import Testing

@Suite("The PROXY header")
struct ProxyHeaderTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let bytes: [UInt8]
    let outcome: Result<ProxyHeader.Source, ProxyHeaderError>

    init(_ label: String, _ bytes: [UInt8], _ source: ProxyHeader.Source) {
      (testDescription, self.bytes, outcome) = (label, bytes, .success(source))
    }

    init(_ label: String, _ bytes: [UInt8], _ error: ProxyHeaderError) {
      (testDescription, self.bytes, outcome) = (label, bytes, .failure(error))
    }

    init(_ line: String, _ source: ProxyHeader.Source) { self.init(line, Array((line + "\r\n").utf8), source) }

    init(_ line: String, _ error: ProxyHeaderError) { self.init(line, Array((line + "\r\n").utf8), error) }
  }

  static func address(_ text: String, _ port: UInt16) -> ProxyHeader.Source {
    IPAddress(text).map { .address($0, port: port) } ?? .unknown
  }

  static let longest = "ffff:f...f:ffff".replacing(
    "f...f", with: [String](repeating: "ffff", count: 6).joined(separator: ":"))

  static let text = [
    Case("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443", address("192.0.2.1", 56324)),
    Case("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535", address("255.255.255.255", 65535)),
    Case("PROXY TCP4 192.0.2.1 198.51.100.1 0 0", address("192.0.2.1", 0)),
    Case("PROXY TCP6 2001:db8::1 2001:db8::2 56324 443", address("2001:db8::1", 56324)),
    Case("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2", address("192.0.2.1", 1)),
    Case("PROXY TCP6 \(longest) \(longest) 65535 65535", address(longest, 65535)),
    Case("PROXY UNKNOWN", .unknown),
    Case("PROXY UNKNOWN whatever is behind it", .unknown),
    Case("PROXY UNKNOWN \(longest) \(longest) 65535 65535", .unknown),
    Case("PROXY UNKNOWN \(longest) \(longest) 65535 65535 ", .malformedText),
    Case("PROXY ", .malformedText), Case("PROXY  TCP4 1.1.1.1 1.1.1.1 1 1", .malformedText),
    Case("PROXY TCP4", .malformedText), Case("PROXY TCP4 1.1.1.1 1.1.1.1 1", .malformedText),
    Case("PROXY TCP4 1.1.1.1 1.1.1.1 1 1 1", .malformedText), Case("PROXY TCP4 1.1.1.1 1.1.1.1 1 1 ", .malformedText),
    Case("PROXY TCP4 1.1.1.1  1.1.1.1 1 1", .malformedText), Case("PROXY TCP4 1.1.1.1 x 1 1", .malformedText),
    Case("PROXY TCP4 01.1.1.1 1.1.1.1 1 1", .malformedText), Case("PROXY TCP4 1.1.1 1.1.1.1 1 1", .malformedText),
    Case("PROXY TCP4 ::1 ::1 1 1", .malformedText), Case("PROXY TCP6 1.1.1.1 1.1.1.1 1 1", .malformedText),
    Case("PROXY TCP6 ::1 1.1.1.1 1 1", .malformedText), Case("PROXY TCP6 [::1] [::1] 1 1", .malformedText),
    Case("PROXY TCP6 fe80::1%eth0 ::1 1 1", .malformedText), Case("PROXY TCP4 1.1.1.1 1.1.1.1 65536 1", .malformedText),
    Case("PROXY TCP4 1.1.1.1 1.1.1.1 1 65536", .malformedText), Case("PROXY TCP4 1.1.1.1 1.1.1.1 01 1", .malformedText),
    Case("PROXY TCP4 1.1.1.1 1.1.1.1 +1 1", .malformedText), Case("PROXY TCP4 1.1.1.1 1.1.1.1 -1 1", .malformedText),
    Case("PROXY TCP4 1.1.1.1 1.1.1.1  1", .malformedText), Case("PROXY tcp4 1.1.1.1 1.1.1.1 1 1", .malformedText),
    Case("PROXY TCP 1.1.1.1 1.1.1.1 1 1", .malformedText), Case("PROXY UNKNOWNS", .malformedText),
    Case("PROXY UDP4 1.1.1.1 1.1.1.1 1 1", .malformedText), Case("PROXY UNKNOWN\0", .malformedText),
    Case("PROXY UNKNOWN\t", .malformedText), Case("proxy UNKNOWN", .missing), Case("PROXYUNKNOWN", .missing),
    Case("POST / HTTP/1.1", .missing), Case("PRI * HTTP/2.0", .missing), Case("GET / HTTP/1.1", .missing),
    Case("a bare LF", Array("PROXY UNKNOWN\nGET".utf8), .malformedText),
    Case("a bare CR", Array("PROXY UNKNOWN\rGET".utf8), .malformedText),
    Case("TLS", [0x16, 3, 1, 2, 0], .missing), Case("an empty line", Array("\r\nGET / HTTP/1.1".utf8), .missing),
  ]

  // MARK: Version 2

  static let signature: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]

  static func binary(_ family: UInt8, _ rest: [UInt8], command: UInt8 = 0x21, length: Int? = nil) -> [UInt8] {
    let length = length ?? rest.count
    return signature + [command, family, UInt8(length >> 8), UInt8(length & 0xff)] + rest
  }

  static let v4: [UInt8] = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 0x01, 0xbb]
  static let v6: [UInt8] =
    [0x20, 1, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [1] + [UInt8](repeating: 9, count: 16)
    + [0xdc, 0x04, 0x01, 0xbb]
  static let mapped: [UInt8] =
    [UInt8](repeating: 0, count: 10) + [0xff, 0xff, 192, 0, 2, 1] + [UInt8](repeating: 9, count: 16) + [0, 1, 0, 2]
  static let unix = [UInt8](repeating: 0x61, count: 216)

  /// A TLV.
  static func more(_ type: UInt8, _ value: [UInt8]) -> [UInt8] {
    [type, UInt8(value.count >> 8), UInt8(value.count & 0xff)] + value
  }

  static let forwarded = address("192.0.2.1", 56324)

  static let binaries = [
    Case("TCP over IPv4", binary(0x11, v4), forwarded), Case("UDP over IPv4", binary(0x12, v4), forwarded),
    Case("TCP over IPv6", binary(0x21, v6), address("2001:db8::1", 56324)),
    Case("IPv4 mapped into IPv6", binary(0x21, mapped), address("192.0.2.1", 1)),
    Case("a Unix-domain socket", binary(0x31, unix), .unknown), Case("nothing at all", binary(0x00, []), .unknown),
    Case("nothing, with bytes", binary(0x00, [1, 2, 3]), .unknown),
    Case("a family without transport", binary(0x10, v4), .unknown),
    Case("a transport without family", binary(0x01, []), .unknown),
    Case("a health check", binary(0x00, [], command: 0x20), .proxy),
    Case("one with addresses", binary(0x11, v4, command: 0x20), .proxy),
    Case("one with garbage", binary(0xff, [1, 2, 3], command: 0x20), .proxy),
    Case("what else there is to tell", binary(0x11, v4 + more(0x04, [0, 0]) + more(0x02, Array("a".utf8))), forwarded),
    Case("something empty", binary(0x11, v4 + more(0xea, [])), forwarded),
    Case("something else, cut short", binary(0x11, v4 + [0x04, 0, 2, 0]), .malformedBinary),
    Case("two bytes too many", binary(0x11, v4 + [0x04, 0]), .malformedBinary),
    Case("addresses cut short", binary(0x11, Array(v4.dropLast())), .malformedBinary),
    Case("IPv6 with the length of IPv4", binary(0x21, v4), .malformedBinary),
    Case("a Unix-domain socket cut short", binary(0x31, Array(unix.dropLast())), .malformedBinary),
    Case("as long as may be", binary(0x11, v4 + more(0x04, [UInt8](repeating: 0, count: 4065))), forwarded),
    Case("a byte longer", binary(0x11, v4 + more(0x04, [UInt8](repeating: 0, count: 4066))), .tooLong),
    Case("as long as can be said", binary(0x00, [], command: 0x20, length: 65_535), .tooLong),
    Case("version 1 in binary", binary(0x11, v4, command: 0x11), .malformedBinary),
    Case("version 3", binary(0x11, v4, command: 0x31), .malformedBinary),
    Case("command 2", binary(0x11, v4, command: 0x22), .malformedBinary),
    Case("family 4", binary(0x41, v4), .malformedBinary), Case("transport 3", binary(0x13, v4), .malformedBinary),
    Case("a signature that goes wrong", Array(signature.dropLast()) + [0], .missing),
    // The checksum of this header is from another implementation.
    Case("a checksum", binary(0x11, v4 + more(0x03, checksum)), forwarded),
    Case("a wrong checksum", binary(0x11, v4 + more(0x03, [0, 0, 0, 0])), .wrongChecksum),
    Case("two checksums", binary(0x11, v4 + more(0x03, checksum) + more(0x03, checksum)), .malformedBinary),
    Case("a short checksum", binary(0x11, v4 + more(0x03, [0, 0, 0])), .malformedBinary),
    Case("a checksum of a Unix-domain socket", binary(0x31, unix + more(0x03, [1, 2, 3, 4])), .wrongChecksum),
  ]

  static let checksum: [UInt8] = [0x73, 0x7e, 0xe9, 0x19]

  @Test("is read according to the specification, and every other form is refused", arguments: text + binaries)
  func outcomes(_ `case`: Case) {
    #expect(Self.outcome(`case`.bytes + Array("GET".utf8)) == `case`.outcome)
  }

  @Test("has the same outcome wherever its bytes are split, and ends at its last byte", arguments: text + binaries)
  func splits(_ `case`: Case) {
    for count in 0..<`case`.bytes.count {
      let part = Self.outcome(Array(`case`.bytes[..<count]))
      switch `case`.outcome {
      case .success: #expect(part == nil, "after \(count) bytes")
      case .failure: #expect(part == nil || part == `case`.outcome, "after \(count) bytes")
      }
    }
    guard case .success = `case`.outcome else { return }
    let header = try? ProxyHeader.parse((`case`.bytes + [0x16]).span)
    #expect(header?.length == `case`.bytes.count)
  }

  private static func outcome(_ bytes: [UInt8]) -> Result<ProxyHeader.Source, ProxyHeaderError>? {
    do throws(ProxyHeaderError) {
      return try ProxyHeader.parse(bytes.span).map { .success($0.source) }
    } catch {
      return .failure(error)
    }
  }
}
