import Bytes
import ClientTransport
import EventLoop
import HTTPMessages
import HTTPTypes
import Locks
import TLS
import TestSupport
import Testing

@testable import HTTPClient

@Suite("Connecting")
struct ConnectingTests {
  private static func limits(connect: Duration) -> UpstreamTimeouts {
    UpstreamTimeouts(connect: connect, firstByte: .seconds(60), whole: .seconds(60))
  }

  @Test("a refused connection fails immediately, and a later request reaches the upstream once it is back")
  func refused() throws {
    let peer = try ScriptedPeer()
    let port = peer.port
    let client = try TestClient(port: port)
    peer.stop()
    let error = try #require(try client.send().failure())
    #expect(error.cause == .connectionRefused)
    #expect(error.progress == .unprocessed)
    #expect(error.description.contains("127.0.0.1:\(port): connect: Connection refused"))
    #expect(client.client.counters.connectionsFailed == 1)
    let another = try ScriptedPeer()
    let revived = try TestClient(port: 1) { configuration in
      configuration.host = "a.example"
      let failures = Failures(port: another.port)
      configuration.lookUp = { _, _ throws(ResolutionError) in try failures.next() }
    }
    #expect(try revived.send().failure()?.cause == .dnsError)
    #expect(try revived.send().failure()?.cause == .connectionRefused)
    let call = revived.send()
    try respond(another)
    #expect(try call.received().status == 204)
  }

  @Test("requests that break their connections make no later request wait longer", arguments: ["", "HTTP/1.1 200 O"])
  func broken(response: String) throws {
    let peer = try ScriptedPeer()
    let client = try TestClient(port: peer.port)
    for _ in 0..<8 {
      let call = client.send()
      let connection = try peer.accept()
      _ = try connection.request()
      connection.send(response)
      connection.end()
      #expect(try call.failure() != nil)
    }
    let pause = try client.onLoop { $0.backOff.until.duration(since: $0.loop.now) }
    #expect(pause <= UpstreamLimits().leastBackOff)
    let call = client.send()
    try respond(peer)
    #expect(try call.received().status == 204)
  }

  /// First no address, then an address that refuses, then a good address.
  private final class Failures: Sendable {
    private let lookUps = Locked(0)
    private let port: UInt16

    init(port: UInt16) { self.port = port }

    func next() throws(ResolutionError) -> [SocketAddress] {
      let count = lookUps.withLock { count in
        count += 1
        return count
      }
      guard count > 1, let address = IPAddress("127.0.0.1") else { throw ResolutionError(reason: "not yet") }
      return [.ip(address, port: count == 2 ? 1 : port)]
    }
  }

  @Test("a request to an upstream that does not answer fails when the connect time is over")
  func deaf() throws {
    let peer = try ScriptedPeer(isDeaf: true)
    let client = try TestClient(port: peer.port)
    let error = try #require(try client.send(limits: Self.limits(connect: .milliseconds(1))).failure())
    #expect(error.cause == .connectionTimeout)
    #expect(error.progress == .unprocessed)
  }

  @Test("a new attempt follows an attempt that hangs")
  func hungAttempt() throws {
    let peer = try ScriptedPeer()
    let deaf = try ScriptedPeer(isDeaf: true)
    let addresses = Addresses([deaf.port, peer.port])
    let client = try TestClient(port: 1) { configuration in
      configuration.host = "a.example"
      configuration.limits.attempt = .milliseconds(100)
      configuration.lookUp = { _, _ in addresses.next() }
    }
    let call = client.send()
    try respond(peer)
    #expect(try call.received().status == 204)
    #expect(client.client.counters.connectionsFailed == 1)
  }

  /// One address for each look-up; the last address stays.
  private final class Addresses: Sendable {
    private let ports: Locked<[UInt16]>

    init(_ ports: [UInt16]) { self.ports = Locked(ports) }

    func next() -> [SocketAddress] {
      let port = ports.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
      return IPAddress("127.0.0.1").map { [.ip($0, port: port)] } ?? []
    }
  }

  @Test("a request whose host name is not resolved in time fails with a DNS timeout")
  func hungResolver() throws {
    let gate = Once<Bool>()
    let client = try TestClient(port: 1) { configuration in
      configuration.host = "a.example"
      configuration.lookUp = { _, _ in
        _ = try? gate.wait()
        return []
      }
    }
    let error = try client.send(limits: Self.limits(connect: .milliseconds(1))).failure()
    #expect(error?.cause == .dnsTimeout)
    gate.give(true)
  }

  // MARK: Proxies

  @Test("a refused connection fails no request while another attempt is under way")
  func otherAttempt() throws {
    let proxy = try ScriptedPeer()
    let configured = try UpstreamProxy("http://127.0.0.1:\(proxy.port)/")
    let client = try TestClient(port: 81) { configuration in
      configuration.host = "a.example"
      configuration.proxy = configured
    }
    // The client learns that the upstream speaks HTTP/1.1, and makes an attempt for each request from then on.
    let first = client.send()
    let connection = try proxy.accept()
    _ = try connection.request()
    connection.send("HTTP/1.1 200 Connection established\r\n\r\n")
    _ = try connection.request()
    connection.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    connection.end()
    #expect(try first.received().status == 204)
    let calls = [client.send(), client.send()]
    let attempts = [try proxy.accept(), try proxy.accept()]
    for attempt in attempts { _ = try attempt.request() }
    attempts[0].send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
    wait(for: "one attempt fails") { client.client.counters.connectionsFailed == 1 }
    #expect(try client.onLoop { _ in client.client.counters.requestsWaiting } == 2)
    withExtendedLifetime((calls, attempts)) {}
  }

  @Test("the client requests a tunnel with the proxy's credentials and sends requests through the tunnel")
  func tunnel() throws {
    let proxy = try ScriptedPeer()
    let configured = try UpstreamProxy("http://us%65r:p%40ss@127.0.0.1:\(proxy.port)/")
    let client = try TestClient(port: 81) { configuration in
      configuration.host = "a.example"
      configuration.proxy = configured
    }
    let call = client.send(.get, "/x")
    let connection = try proxy.accept()
    let head = try connection.request().head
    #expect(head.hasPrefix("CONNECT a.example:81 HTTP/1.1\r\nHost: a.example:81\r\n"))
    #expect(head.contains("Proxy-Authorization: Basic dXNlcjpwQHNz\r\n"))
    connection.send("HTTP/1.1 200 Connection established\r\n\r\n")
    let request = try connection.request().head
    #expect(request == "GET /x HTTP/1.1\r\nHost: a.example:81\r\n\r\n")
    connection.send("HTTP/1.1 204 No Content\r\n\r\n")
    #expect(try call.received().status == 204)
  }

  @Test(
    "the error for a failed tunnel names the proxy without its password",
    arguments: [
      ("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", .destinationUnavailable, "407"),
      ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", .destinationUnavailable, "403"),
      ("HTTP/1.1 504 Gateway Timeout\r\n\r\n", .destinationUnavailable, "504"),
      ("HTTP/1.1 200 OK\r\n\r\nhello", .protocolError, "before the upstream could"),
      ("hello", .protocolError, "malformed"), ("", .connectionTerminated, "closed the connection"),
    ] as [(String, UpstreamError.Cause, String)])
  func refusedTunnel(response: String, cause: UpstreamError.Cause, words: String) throws {
    let proxy = try ScriptedPeer()
    let configured = try UpstreamProxy("http://user:secret@127.0.0.1:\(proxy.port)")
    let client = try TestClient(port: 81) { $0.proxy = configured }
    let call = client.send()
    let connection = try proxy.accept()
    _ = try connection.request()
    connection.send(response)
    if response.isEmpty { connection.end() }
    let error = try #require(try call.failure())
    #expect(error.cause == cause)
    #expect(error.progress == .unprocessed)
    #expect(error.description.contains("http://***@127.0.0.1:\(proxy.port)"))
    #expect(error.description.contains(words), "\(error.description)")
    #expect(!error.description.contains("secret"))
  }

  @Test("the URL of a proxy is parsed strictly, and its description hides the password")
  func proxyURL() throws {
    let proxy = try UpstreamProxy("http://user:secret@[::1]:3128")
    #expect(proxy.host == "::1")
    #expect(proxy.port == 3128)
    #expect("\(proxy)" == "http://***@[::1]:3128")
    #expect(String(reflecting: proxy) == "http://***@[::1]:3128")
    #expect(try UpstreamProxy("proxy.example").port == 80)
    let refused = [
      "https://a", "socks5://a", "http://", "http://a:0", "http://a:x", "http://a/b", "http://%zz@a", ":80",
      "http://fe80::1",
    ]
    for bad in refused {
      let error = #expect(throws: UpstreamProxy.InvalidURL.self) { try UpstreamProxy(bad) }
      #expect(error?.description.contains("zz") == false)
    }
  }

  @Test(
    "NO_PROXY matches hosts with their subdomains, addresses, ranges and ports",
    arguments: [
      ("api.music.apple.com", "apple.com", true), ("api.music.apple.com", ".apple.com, x", true),
      ("apple.com", "*.apple.com", true), ("pineapple.com", "apple.com", false), ("a", "*", true), ("a", "", false),
      ("127.0.0.1", "localhost, 127.0.0.1", true), ("API.example", "api.EXAMPLE", true),
      ("a.example", "x b.example a.example", true),
      ("a.example", "a.example:443", true), ("a.example", "a.example:8443", false), ("a.example", "a.example:x", false),
      ("api.a.example", ".a.example:443", true), ("10.1.2.3", "10.0.0.0/8", true), ("11.1.2.3", "10.0.0.0/8", false),
      ("10.1.2.3", "10.1.2.3:443", true), ("10.1.2.3", "10.1.2.3:80", false), ("10.1.2.3", "2.3", false),
      ("2001:db8::1", "2001:db8::/32", true), ("2001:db8::1", "[2001:db8:0::1]:443", true),
      ("2001:db8::1", "[2001:db8::1]", true), ("2001:db8::1", "[2001:db8::1]:80", false),
      ("2001:db8::1", "2001:db8::2", false), ("example.com", "10.0.0.0/8", false),
    ])
  func noProxy(host: String, list: String, isExempt: Bool) {
    #expect(UpstreamProxy.isExempt(host, port: 443, noProxy: list) == isExempt)
  }

  private func respond(_ peer: ScriptedPeer) throws {
    let connection = try peer.accept()
    _ = try connection.request()
    connection.send("HTTP/1.1 204 No Content\r\n\r\n")
    connection.end()
  }
}
