import Glibc
import JSON
import TestSupport
import Testing

@Suite("Content below /v1/me")
struct CatalogStreamingTests {
  /// More than the kernel's buffers of two connections hold.
  private static let flood = 64 << 20

  @Test("arrives complete, with and without a known length", arguments: [[], ["-H", "Transfer-Encoding: chunked"]])
  func upload(_ framing: [String]) throws {
    let upstream = try RawUpstream()
    let ground = try Ground()
    let server = try upstream.serve(ground, CatalogGround.forEverybody)
    let content = (0..<2 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
    let file = try ground.directory.write(content, to: "content")
    let digest = try #require(try run("sha256sum", [file]).stdout.split(separator: " ").first)
    let response = try ParsedResponse(
      curl: framing + ["-X", "POST", "-H", "Expect:", "-T", file, "\(server.url)/v1/me/library/upload"])
    #expect(response.status == 200, "\(response.text)")
    let request = try upstream.next()
    #expect(request["length"]?.integer == content.count)
    #expect(request["sha256"]?.string == String(digest))
  }

  @Test("is read no faster than Apple reads, and then completely")
  func heldUpload() throws {
    let upstream = try RawUpstream()
    let server = try upstream.serve(try Ground(), CatalogGround.forEverybody)
    let before = try Self.memory(of: server)
    let connection = try server.connect()
    connection.send("POST /v1/me/library/hold HTTP/1.1\r\nHost: a\r\nContent-Length: \(Self.flood)\r\n\r\n")
    // The request is sent when more has arrived than the server keeps.
    var sent = 1_200_000
    connection.send(String(repeating: "x", count: sent))
    #expect(try upstream.next()["line"]?.string?.contains("hold") == true)
    sent += connection.sendUntilFull(Self.flood - sent)
    #expect(sent < Self.flood, "somebody has taken all of it")
    #expect(try Self.memory(of: server) - before < 8 << 20)
    upstream.process.send("go on\n")
    connection.send(String(repeating: "x", count: Self.flood - sent))
    #expect(try connection.response().status == 200)
    #expect(try upstream.next()["length"]?.integer == Self.flood)
    #expect(try Self.memory(of: server) - before < 8 << 20)
  }

  @Test(
    "in a response is read no faster than the client reads",
    arguments: ["/v1/me/flood", "/v1/catalog/us/flood"])
  func heldDownload(_ path: String) throws {
    let upstream = try RawUpstream()
    let server = try upstream.serve(try Ground(), CatalogGround.forEverybody)
    let before = try Self.memory(of: server)
    let connection = try server.connect()
    connection.send("GET \(path)?\(Self.flood) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    #expect(try upstream.next()["line"]?.string?.contains("flood") == true)
    #expect(try #require(try upstream.next()["stalled"]?.integer) < Self.flood)
    #expect(try Self.memory(of: server) - before < 8 << 20)
    #expect(try connection.receiveAll().utf8.count > Self.flood)
    #expect(try Self.memory(of: server) - before < 8 << 20)
  }

  @Test("of a client that disconnects halfway also ends at Apple")
  func goneMidway() throws {
    let upstream = try RawUpstream()
    let server = try upstream.serve(try Ground(), CatalogGround.forEverybody)
    do {
      let connection = try server.connect()
      // More than the server keeps before it sends the request.
      connection.send("POST /v1/me/library/hold HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n")
      connection.send(String(repeating: "x", count: 1_100_000))
      _ = try upstream.next()
    }
    upstream.process.send("go on\n")
    #expect(try #require(try upstream.next()["length"]?.integer) <= 1_100_000)
    #expect(server.stop() == 0)
  }

  /// The peak memory of a server so far, in bytes.
  private static func memory(of server: RunningServer) throws -> Int {
    let status = try TextFile.read("/proc/\(server.process.id)/status")
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    guard let kilobytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Int($0) }) else {
      throw TestFailure("The kernel does not say how much memory the server takes.")
    }
    return kilobytes << 10
  }
}
