import HTTP1
import Testing

@Suite("The hops of Forwarded and X-Forwarded-For")
struct ForwardedHopsTests {
  struct Case: CustomTestStringConvertible {
    let field: ForwardedHops.Field
    let value: String
    /// Nearest first; empty for an element without an address.
    let hops: [String]

    init(_ field: ForwardedHops.Field, _ value: String, _ hops: [String]) {
      (self.field, self.value, self.hops) = (field, value, hops)
    }

    var testDescription: String { "\(field.name): \(value)" }
  }

  static let cases = [
    Case(.forwardedFor, "192.0.2.1", ["192.0.2.1"]),
    Case(.forwardedFor, "192.0.2.1, 198.51.100.2,203.0.113.3", ["203.0.113.3", "198.51.100.2", "192.0.2.1"]),
    Case(.forwardedFor, "192.0.2.1:4711", ["192.0.2.1"]),
    Case(.forwardedFor, "2001:db8::1", ["2001:db8::1"]),
    Case(.forwardedFor, "[2001:db8::1], [2001:db8::2]:443", ["2001:db8::2", "2001:db8::1"]),
    Case(.forwardedFor, "::ffff:192.0.2.1", ["::ffff:192.0.2.1"]),
    Case(.forwardedFor, " \t192.0.2.1\t ,, ,", ["192.0.2.1"]),
    Case(.forwardedFor, "", []),
    Case(.forwardedFor, " , ,", []),
    Case(.forwardedFor, "192.0.2.1, [2001:db8::1", ["", "192.0.2.1"]),
    Case(.forwardedFor, "[2001:db8::1]443", [""]),
    Case(.forwardedFor, "[2001:db8::1]:", [""]),
    Case(.forwardedFor, "192.0.2.1:", [""]),
    Case(.forwardedFor, "192.0.2.1:123456", [""]),
    Case(.forwardedFor, "192.0.2.1:8o", [""]),
    // The caller decides whether the text is an address.
    Case(.forwardedFor, "unknown, \"192.0.2.1\"", ["\"192.0.2.1\"", "unknown"]),
    Case(.forwardedFor, "for=192.0.2.1", ["for=192.0.2.1"]),

    // The examples of RFC 7239 §4 and §6.
    Case(.forwarded, "for=\"_gazonk\"", ["_gazonk"]),
    Case(.forwarded, "For=\"[2001:db8:cafe::17]:4711\"", ["2001:db8:cafe::17"]),
    Case(.forwarded, "for=192.0.2.60;proto=http;by=203.0.113.43", ["192.0.2.60"]),
    Case(.forwarded, "for=192.0.2.43, for=198.51.100.17", ["198.51.100.17", "192.0.2.43"]),
    Case(.forwarded, "for=_hidden, for=_SEVKISEK", ["_SEVKISEK", "_hidden"]),
    Case(.forwarded, "for=\"192.0.2.43:47011\"", ["192.0.2.43"]),
    Case(.forwarded, "for=\"192.0.2.43:_port\", for=unknown", ["unknown", "192.0.2.43"]),
    Case(
      .forwarded, "for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown",
      ["unknown", "2001:db8:cafe::17", "192.0.2.43"]),
    // Forms that the grammar does not allow but that have only one meaning.
    Case(.forwarded, "for=192.0.2.1:80 ; proto=https", ["192.0.2.1"]),
    Case(.forwarded, "for=[2001:db8::1]", ["2001:db8::1"]),
    Case(.forwarded, "for=\"2001:db8::1\"", ["2001:db8::1"]),
    Case(.forwarded, ", for=192.0.2.1,;,", ["", "192.0.2.1"]),
    // Commas, semicolons and quotation marks within quoted strings.
    Case(.forwarded, "for=192.0.2.1;host=\"a,b;for=1.1.1.1\"", ["192.0.2.1"]),
    Case(.forwarded, #"for=192.0.2.1;x="\",\\",for=192.0.2.2"#, ["192.0.2.2", "192.0.2.1"]),
    Case(.forwarded, #"x="\\";for=192.0.2.1"#, ["192.0.2.1"]),
    // No address, or more than one.
    Case(.forwarded, "proto=https;by=203.0.113.43", [""]),
    Case(.forwarded, "for=192.0.2.1;for=192.0.2.2", [""]),
    Case(.forwarded, "for=192.0.2.1;FOR=192.0.2.2", [""]),
    Case(.forwarded, "192.0.2.1", [""]),
    Case(.forwarded, "for=", [""]),
    Case(.forwarded, "for=\"\"", [""]),
    Case(.forwarded, "for=\"", [""]),
    Case(.forwarded, #"for="192.0.2.\1""#, [""]),
    Case(.forwarded, "fort=192.0.2.1", [""]),
    Case(.forwarded, "for =192.0.2.1", [""]),
    // What a client writes first does not change the elements that a proxy appends.
    Case(.forwarded, "for=\"1.1.1.1, for=192.0.2.1", ["192.0.2.1", ""]),
    Case(.forwarded, "for=1.1.1.1;x=\", for=\"[2001:db8::1]\"", ["2001:db8::1", ""]),
    Case(.forwarded, #"x="\, for="[2001:db8::1]:80";proto=http"#, ["2001:db8::1", ""]),
    Case(.forwarded, "for=\"1.1.1.1\", for=\"x;for=y, for=192.0.2.1", ["192.0.2.1", ""]),
  ]

  @Test("are read from the end, each without port and brackets", arguments: cases)
  func hops(_ `case`: Case) {
    #expect(Self.hops(`case`.field, `case`.value) == `case`.hops)
  }

  @Test("stay within the value, whatever surrounds it")
  func range() {
    let bytes = Array("9.9.9.9, 192.0.2.1, 8.8.8.8".utf8)
    var hops = ForwardedHops(.forwardedFor, 9..<18)
    let hop = hops.next(in: bytes.span)
    let end = hops.next(in: bytes.span)
    #expect(hop == 9..<18)
    #expect(end == nil)
  }

  @Test(
    "the parser notes which forwarding fields a head has",
    arguments: [
      ("", []), ("Forwarded: for=_a\r\n", .forwarded), ("X-FORWARDED-FOR: 1.1.1.1\r\n", .forwardedFor),
      ("x-request-id: a\r\nforwarded:\r\nx-forwarded-for: a\r\n", [.forwarded, .forwardedFor, .requestID]),
      ("X-Forwarded-Host: a\r\nForwarde: a\r\nForwardeds: a\r\n", []),
    ] as [(String, ForwardingFields)])
  func noted(fields: String, expected: ForwardingFields) throws {
    var parser = RequestHeadParser()
    #expect(try parser.parse(array: Array("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n".utf8)) != nil)
    #expect(parser.head.forwarding == expected)
    parser.reset()
    #expect(try parser.parse(array: Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)) != nil)
    #expect(parser.head.forwarding.isEmpty)
  }

  private static func hops(_ field: ForwardedHops.Field, _ value: String) -> [String] {
    let bytes = Array(value.utf8)
    var hops = ForwardedHops(field, 0..<bytes.count)
    var found: [String] = []
    while let hop = hops.next(in: bytes.span) { found.append(String(decoding: bytes[hop], as: UTF8.self)) }
    return found
  }
}
