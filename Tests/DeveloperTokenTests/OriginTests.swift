import HTTPMessages
import Testing

@testable import DeveloperToken

@Suite("An origin")
struct OriginTests {
  static let normalised: [(text: String, origin: String)] = [
    ("https://app.example.com", "https://app.example.com"),
    ("HTTPS://App.Example.COM", "https://app.example.com"),
    ("https://app.example.com/", "https://app.example.com"),
    ("https://app.example.com:443", "https://app.example.com"),
    ("https://app.example.com:443/", "https://app.example.com"),
    ("http://app.example.com:80", "http://app.example.com"),
    ("http://app.example.com:443", "http://app.example.com:443"),
    ("https://app.example.com:80", "https://app.example.com:80"),
    ("https://app.example.com:8443", "https://app.example.com:8443"),
    ("https://app.example.com:00443", "https://app.example.com"),
    ("http://localhost:3000", "http://localhost:3000"),
    ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ("http://[::1]:8080", "http://[::1]:8080"),
    ("http://[0:0:0:0:0:0:0:1]", "http://[::1]"),
    ("http://[::]", "http://[::]"),
    ("http://[2001:DB8:0:0:1:0:0:1]", "http://[2001:db8::1:0:0:1]"),
    ("http://[2001:db8:0:1:1:1:1:1]", "http://[2001:db8:0:1:1:1:1:1]"),
    ("http://[1:2:3:4:5:6:0:0]", "http://[1:2:3:4:5:6::]"),
    ("http://[::ffff:192.0.2.1]", "http://[::ffff:c000:201]"),
    ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
    ("https://a_b.example", "https://a_b.example"),
    ("https://1.example", "https://1.example"),
    ("https://x:1", "https://x:1"),
    ("https://x:65535", "https://x:65535"),
  ]

  @Test("is serialized as RFC 6454 says", arguments: normalised)
  func serialization(text: String, origin: String) throws {
    let parsed = try Origin(text)
    #expect(parsed.description == origin)
    #expect(try Origin(origin) == parsed, "the serialization is its own")
  }

  static let refused: [(text: String, says: String)] = [
    ("", "is empty"),
    ("null", "opaque origin: browsers send it for file:// pages and sandboxed frames"),
    (
      "*", "is a wildcard; Apple compares origins byte by byte, so name each one in full, as in https://app.example.com"
    ),
    ("app.example.com", "no scheme"),
    ("//app.example.com", "no scheme"),
    ("https:app.example.com", "no scheme"),
    ("https:/app.example.com", "no scheme"),
    ("ftp://app.example.com", "scheme other than http and https. Write one"),
    ("capacitor://localhost", "an app that is no web page uses an API key and names no origin."),
    ("://app.example.com", "scheme other than"),
    ("https://", "no host"),
    ("https://:443", "no host"),
    ("https://app.example.com/path", "path"),
    ("https://app.example.com//", "path"),
    ("https://app.example.com?q", "query"),
    ("https://app.example.com/?q", "query"),
    ("https://app.example.com#f", "fragment"),
    ("https://app.example.com\\", "path"),
    ("https://me@app.example.com", "user information"),
    ("https://me:secret@app.example.com", "user information"),
    ("https://*.example.com", "wildcard"),
    ("https://*", "wildcard"),
    ("https://bücher.example", "xn--"),
    ("https://app.example.com ", "white space"),
    (" https://app.example.com", "white space"),
    ("https://app.exa\tmple.com", "white space"),
    ("https://app.example.com\n", "white space"),
    ("https://app.example.com\0", "white space"),
    ("https://app.example.com:", "port"),
    ("https://app.example.com:0", "port"),
    ("https://app.example.com:65536", "port"),
    ("https://app.example.com:+80", "port"),
    ("https://app.example.com:999999999999999999999", "port"),
    ("https://app.example.com:80:80", "port"),
    ("https://app..example.com", "letters, digits"),
    ("https://.example.com", "letters, digits"),
    ("https://app.example.com.", "letters, digits"),
    ("https://-app.example.com", "letters, digits"),
    ("https://app-.example.com", "letters, digits"),
    ("https://app%2eexample.com", "letters, digits"),
    ("https://a\"b.example", "letters, digits"),
    ("https://\(String(repeating: "a", count: 64)).example", "letters, digits"),
    ("https://1.2.3", "IPv4"),
    ("https://1.2.3.256", "IPv4"),
    ("https://01.2.3.4", "IPv4"),
    ("https://0x7f.1", "IPv4"),
    ("https://1.2.3.0x4", "IPv4"),
    ("https://[::1", "without its"),
    ("https://[::g]", "not an IPv6"),
    ("https://[fe80::1%25eth0]", "not an IPv6"),
    ("https://[]", "not an IPv6"),
    ("https://[1.2.3.4]", "not an IPv6"),
    ("https://[::1]x", "between"),
    ("https://::1", "no host"),
    ("https://\(String(repeating: "a.", count: 150))b", "longer than"),
  ]

  @Test("that no browser would send is refused with a sentence", arguments: refused)
  func refusal(text: String, says: String) throws {
    let error = try #require(throws: OriginError.self) { try Origin(text) }
    #expect("\(error)".contains(says))
    #expect("\(error)".utf8.allSatisfy { $0 != 0 && $0 != 0x0A && $0 != 0x09 }, "nothing that breaks a log line")
  }

  static let hosts: [(text: String, host: String, isLoopback: Bool)] = [
    ("https://app.example.com:8443", "app.example.com", false),
    ("http://localhost:3000", "localhost", true),
    ("http://app.localhost", "app.localhost", true),
    ("http://127.1.2.3", "127.1.2.3", true),
    ("http://127.evil.example", "127.evil.example", false),
    ("http://localhost.evil.example", "localhost.evil.example", false),
    ("http://[::1]:1", "[::1]", true),
    ("http://[::2]", "[::2]", false),
  ]

  @Test("knows its host and whether the host is loopback", arguments: hosts)
  func host(text: String, host: String, isLoopback: Bool) throws {
    let origin = try Origin(text)
    #expect(origin.host == host)
    #expect(origin.isLoopback == isLoopback)
  }
}
