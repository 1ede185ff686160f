import Testing

@testable import EventLoop

@Suite struct AddressTests {
  @Test(
    "an address is read in its textual forms and written in its canonical form",
    arguments: [
      ("192.0.2.1", "192.0.2.1"), ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"),
      ("2001:DB8::1", "2001:db8::1"), ("::", "::"), ("::1", "::1"),
      ("::ffff:192.0.2.1", "192.0.2.1"), ("::ffff:c000:201", "192.0.2.1"),
    ])
  func reading(text: String, canonical: String) throws {
    #expect(try #require(IPAddress(text)).description == canonical)
  }

  @Test(
    "text that is not an address is refused",
    arguments: [
      "", "localhost", "192.0.2", "192.0.2.256", "192.0.2.1 ", " 192.0.2.1", "192.0.2.1\0", "192.0.2.1:80", "[::1]",
      "::1%lo", "fe80::1%eth0", ":::", "1:2:3:4:5:6:7:8:9", "0x7f.0.0.1", "127.1", "10.0.0.0/8",
      "01.2.3.4", "192.0.2.1\0x", "１.2.3.4", String(repeating: "0", count: 45), String(repeating: "0", count: 46),
    ])
  func refusing(text: String) {
    #expect(IPAddress(text) == nil)
  }

  @Test("an address is created from its bits")
  func bits() {
    #expect(IPAddress(v4: 0xc000_0201) == IPAddress("192.0.2.1"))
    #expect(IPAddress(bits: 0x2001_0db8 << 96 | 1) == IPAddress("2001:db8::1"))
    #expect(IPAddress(bits: 0xffff_c000_0201) == IPAddress("192.0.2.1"))
  }

  @Test("the longest texts of addresses are read")
  func longest() {
    let groups = [String](repeating: "ffff", count: 6).joined(separator: ":")
    #expect(IPAddress("\(groups):255.255.255.255")?.description == "\(groups):ffff:ffff")
    #expect(IPAddress("255.255.255.255")?.description == "255.255.255.255")
  }

  @Test(
    "loopback is 127.0.0.0/8 and ::1 only",
    arguments: [
      ("127.0.0.1", true), ("127.255.255.255", true), ("::1", true), ("::ffff:127.0.0.1", true), ("126.0.0.1", false),
      ("128.0.0.1", false), ("::2", false), ("::", false), ("0.0.0.0", false),
    ])
  func loopback(text: String, isLoopback: Bool) throws {
    #expect(try #require(IPAddress(text)).isLoopback == isLoopback)
  }

  @Test(
    "localhost and the names below it are both loopback addresses, without a resolver",
    arguments: [
      ("localhost", true), ("LocalHost", true), ("localhost.", true), ("app.localhost", true), ("a.b.LOCALHOST.", true),
      ("", false), (".", false), (".localhost", false), ("localhost..", false), ("applocalhost", false),
      ("localhost.example", false), ("localhos", false), ("LOCALHO\u{13}T", false), ("127.0.0.1", false),
    ])
  func localhost(name: String, isLoopback: Bool) {
    let found = SocketAddress.loopback(named: name, port: 80)?.map(\.description)
    #expect(found == (isLoopback ? ["127.0.0.1:80", "[::1]:80"] : nil))
  }

  @Test(
    "a rateLimitPrefix is an IPv4 address or the /64 prefix of an IPv6 address",
    arguments: [
      ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
    ])
  func rateLimitPrefix(text: String, rateLimitPrefix: String) throws {
    #expect(try #require(IPAddress(text)).rateLimitPrefix.description == rateLimitPrefix)
  }

  @Test(
    "a range contains the addresses that share its prefix",
    arguments: [
      ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.0", false), ("10.0.0.0/8", "::ffff:10.1.2.3", true),
      ("192.0.2.7", "192.0.2.7", true), ("192.0.2.7", "192.0.2.6", false), ("0.0.0.0/0", "255.1.2.3", true),
      ("0.0.0.0/0", "2001:db8::1", false), ("192.0.2.128/25", "192.0.2.127", false),
      ("192.0.2.128/25", "192.0.2.128", true), ("192.0.2.1/32", "192.0.2.1", true),
      ("2001:db8::/32", "2001:db8:ffff::1", true), ("2001:db8::/32", "2001:db9::", false),
      ("2001:db8::/64", "2001:db8::ffff:0:0:1", true), ("2001:db8::/64", "2001:db8:0:1::", false),
      ("2001:db8::/65", "2001:db8::7fff:0:0:1", true), ("2001:db8::/65", "2001:db8::8000:0:0:1", false),
      ("::/0", "2001:db8::1", true), ("::1/128", "::1", true), ("::1", "::2", false),
      ("::ffff:10.0.0.0/104", "10.1.2.3", true),
    ])
  func containing(range: String, address: String, isContained: Bool) throws {
    let range = try #require(AddressRange(range))
    #expect(range.contains(try #require(IPAddress(address))) == isContained)
  }

  @Test(
    "text that is not a range is refused",
    arguments: [
      "", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8", "10.0.0.0/ 8",
      "10.0.0.0/a", "10.0.0.0/99999999999999999999", "10.0.0.1/8", "2001:db8::/129", "2001:db8::1/32", "a/8",
    ])
  func refusingRanges(text: String) {
    #expect(AddressRange(text) == nil)
  }

  @Test("socket addresses and endpoints describe themselves as in URLs")
  func descriptions() throws {
    let v4 = try #require(IPAddress("127.0.0.1"))
    let v6 = try #require(IPAddress("::1"))
    #expect(SocketAddress.ip(v4, port: 80).description == "127.0.0.1:80")
    #expect(SocketAddress.ip(v6, port: 80).description == "[::1]:80")
    #expect(SocketAddress.unix(path: "/run/a.sock").description == "unix:/run/a.sock")
    #expect(Endpoint.tcp(host: "*", port: 80).description == "*:80")
    #expect(Endpoint.tcp(host: "::1", port: 80).description == "[::1]:80")
  }
}
