import EventLoop
import HTTP1
import HTTPMessages
import HTTPServer
import JSON
import TLS
import TestSupport
import Testing

@testable import Commands
@testable import MusicSandbox

/// The emulator behind a server: its responses on the wire.
@Suite struct ServedTests {
  private static let album = "/v1/catalog/us/albums/1200868601"

  @Test("the server sends a response of the emulator unchanged")
  func plain() throws {
    let served = try Served()
    let response = try #require(try served.connect(Self.album).response())
    #expect(response.status == 200)
    #expect(response.body == served.ground.respond(Self.album).content.withPort(served.port))
    #expect(response["content-type"] == "application/json;charset=utf-8")
    let picture = try #require(try served.connect("/image/thumb/x/albums-1200868601/8x8bb.png").response())
    #expect(picture.status == 200)
    #expect(picture.body.starts(with: [0x89, 0x50]))
  }

  @Test("the server reads the content of a request and refuses too large content with 413")
  func content() throws {
    let served = try Served()
    let user = "Music-User-Token: \(Ground.userToken)\r\n"
    let made = try served.connect(
      "/v1/me/library/playlists", "POST", fields: user, content: #"{"attributes":{"name":"A"}}"#)
    #expect(try made.response()?.status == 201)
    let large = String(repeating: " ", count: Sandbox.maximumContent + 1)
    let refused = try served.connect("/v1/me/library/playlists", "POST", fields: user, content: large)
    #expect(try refused.response()?.status == 413)
  }

  @Test("the fault reset announces the whole length and sends half of the content")
  func reset() throws {
    let served = try Served()
    let text = try served.everything("reset")
    let whole = served.ground.respond(Self.album).content.withPort(served.port)
    #expect(text.head.contains("Content-Length: \(whole.count)\r\n"))
    #expect(whole.starts(with: text.content))
    #expect(text.content.count == whole.count / 2)
  }

  @Test("the fault truncate sends chunked content without the last chunk")
  func truncate() throws {
    let text = try Served().everything("truncate")
    #expect(text.head.contains("Transfer-Encoding: chunked\r\n"))
    #expect(!text.head.contains("Content-Length"))
    #expect(!text.content.suffix(5).elementsEqual("0\r\n\r\n".utf8))
    #expect(text.content.count > 1000)
  }

  @Test("the fault reset on an empty response ends the connection before the response")
  func emptyReset() throws {
    let client = try Served().connect(Self.album, fields: "X-Sandbox-Fault: empty-401,reset\r\n")
    #expect(throws: TestFailure.self) { try client.response() }
  }

  @Test("the faults slow and delay leave the content complete")
  func slow() throws {
    let served = try Served()
    let whole = served.ground.respond(Self.album).content.withPort(served.port)
    let fields = "X-Sandbox-Fault: slow=\(whole.count / 2 + 1),delay=20ms\r\n"
    #expect(try served.connect(Self.album, fields: fields).response()?.body == whole)
  }

  @Test("the fault huge gives JSON of the requested length", arguments: [1, 2, 100_000])
  func huge(count: Int) throws {
    let response = try Served().connect(Self.album, fields: "X-Sandbox-Fault: huge=\(count)\r\n").response()
    #expect(response?.body.count == count)
    #expect(response.flatMap { JSONReader.read($0.body) } != nil)
  }

  @Test("the fault goaway closes the connection after the response")
  func goaway() throws {
    #expect(try Served().connect(Self.album, fields: "X-Sandbox-Fault: goaway\r\n").response()?.isLast == true)
  }

  @Test("a skewed clock appears in a single Date field")
  func date() throws {
    let served = try Served { $0.clockSkew = 90 }
    let response = try served.connect(Self.album).response()
    #expect(response?["date"] == HTTPDate.text(Ground.now + 90))
  }

  @Test("HEAD gets the Content-Length of GET")
  func head() throws {
    let served = try Served()
    let client = try served.connect(Self.album, "HEAD")
    let response = try client.response(isHead: true)
    #expect(response?["content-length"] == "\(served.ground.respond(Self.album).content.withPort(served.port).count)")
  }
}

/// An emulator on a free port of the loopback interface.
private final class Served {
  let ground: Ground
  let port: UInt16
  private let server: Server
  private let loop: IOLoop

  init(_ change: (inout SandboxOptions) -> Void = { _ in }) throws {
    ground = try Ground(change)
    loop = try IOLoop.start(label: "test.sandbox")
    let configuration = Server.Configuration(endpoint: .tcp(host: "127.0.0.1", port: 0), observer: Nobody())
    server = try Server(configuration, router: ground.sandbox.router, loops: [loop])
    guard let port = server.addresses.first?.port else { throw TestFailure("The server has no port.") }
    self.port = port
  }

  deinit {
    server.drain(timeout: .zero)
    loop.stop()
  }

  /// A connection with one request sent, which has a valid token.
  func connect(
    _ target: String, _ method: String = "GET", fields: String = "", content: String? = nil
  ) throws -> RawClient {
    let client = try RawClient(port: port)
    let length = content.map { "Content-Length: \($0.utf8.count)\r\n" } ?? ""
    try client.send(
      "\(method) \(target) HTTP/1.1\r\nHost: localhost:\(port)\r\nAuthorization: Bearer \(ground.token)\r\n"
        + "\(fields)\(length)\r\n\(content ?? "")")
    return client
  }

  /// All bytes of the response for the album with a fault, until the connection ends.
  func everything(_ fault: String) throws -> (head: String, content: [UInt8]) {
    let client = try connect(
      "/v1/catalog/us/albums/1200868601", fields: "X-Sandbox-Fault: \(fault)\r\n")
    let bytes = try client.restUndecrypted()
    guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { throw TestFailure("There is no head.") }
    return (String(decoding: bytes[..<end.upperBound], as: UTF8.self), Array(bytes[end.upperBound...]))
  }
}

/// An observer that ignores every event.
private struct Nobody: ExchangeObserver {
  func completed(_ request: Request, _ response: Response, bytes: Int) {}
  func noticed(_ notice: ServerNotice) {}
}

extension [UInt8] {
  /// The same bytes with the server's port in place of the port of `Ground`.
  fileprivate func withPort(_ port: UInt16) -> [UInt8] {
    Array(String(decoding: self, as: UTF8.self).replacing("localhost:8081", with: "localhost:\(port)").utf8)
  }
}
