import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import EventLoop
@testable import HTTPServer

/// Which connection a full server ends for another one.
@Suite("The place of a connection")
struct RoomTests {
  private static func silent(_ arrival: Int, of count: Int) -> HeldPlace {
    HeldPlace(waitsFor: .firstRequest, arrival: arrival, ofAddress: count)
  }

  private static func asking(_ arrival: Int, of count: Int) -> HeldPlace {
    HeldPlace(waitsFor: .exchange, arrival: arrival, ofAddress: count)
  }

  private static func idle(_ arrival: Int, of count: Int) -> HeldPlace {
    HeldPlace(waitsFor: .nextRequest, arrival: arrival, ofAddress: count)
  }

  @Test(
    "goes to a newcomer of an address with fewer connections",
    arguments: [
      ("the longest wait without a request", [silent(7, of: 3), silent(2, of: 1), silent(9, of: 900)], 0, 1),
      ("a wait without a request before an idle one", [idle(1, of: 900), silent(8, of: 1)], 0, 1),
      ("of idle ones, the address with most", [idle(1, of: 5), idle(2, of: 9), idle(3, of: 9)], 0, 1),
      ("the greediest address, whatever it waits for", [idle(1, of: 20), asking(2, of: 900)], 0, 1),
      ("of an address an idle one before a request", [asking(1, of: 900), idle(2, of: 900)], 0, 1),
      ("requests of a modest address stay", [asking(1, of: 16)], 0, nil), ("busy ones stay", [], 0, nil),
      ("those of proxies stay", [idle(1, of: 0)], 0, nil),
      ("no address gains by connections of its own", [idle(1, of: 4), silent(2, of: 3)], 4, nil),
      ("only a greedier address loses", [silent(1, of: 3), idle(2, of: 6)], 5, 1),
    ] as [(String, [HeldPlace], Int, Int?)])
  func choice(_ label: String, _ places: [HeldPlace], _ others: Int, _ expected: Int?) {
    #expect(HeldPlace.leastDeserved(places, besides: others) == expected, "\(label)")
  }

  private static let router = Router([
    Route("/", [.get { _ in Response(.ok, body: Array("hello".utf8)) }]),
    Route("/large", [.get { _ in Response(.ok, body: Router.large) }]),
    Route("/parts", [.get { _ in parts }]),
    Route("/buffered", [.get { _ in Response(.ok, body: Array(Router.large.prefix(60_000))) }]),
  ])

  /// A response in parts, of which the last never comes.
  private static var parts: Response {
    let content = TestContent()
    content.parts.send(.success(Router.large))
    var response = Response(.ok)
    response.stream = content
    return response
  }

  private static let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

  private func full(
    _ count: Int, receiveBuffer: Int32? = nil, speaksHTTP2: Bool = false
  ) throws -> (TestServer, [RawClient]) {
    var limits = ServerLimits()
    limits.connections = count
    let server = try TestServer(Variant.plain[0], limits: limits, router: Self.router, speaksHTTP2: speaksHTTP2)
    let clients = try (0..<count).map { _ in try server.connect(from: "127.0.0.2", receiveBuffer: receiveBuffer) }
    server.waitForConnections(count)
    return (server, clients)
  }

  @Test("of a silent peer goes to another address, the oldest first, and its own address gets 503")
  func silentPeers() throws {
    let (server, clients) = try full(4)
    let own = try server.connect(from: "127.0.0.2")
    #expect(try own.response()?.status == 503)
    let other = try server.connect(from: "127.0.0.3")
    try other.send(Self.request)
    #expect(try other.response()?.status == 200)
    #expect(try clients[0].response() == nil)
    for client in clients.dropFirst() {
      try client.send(Self.request)
      #expect(try client.response()?.status == 200)
    }
  }

  @Test(
    "of a request that never ends goes to another address",
    arguments: [
      ("content", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"),
      ("content after the response", "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n"),
      ("a second head", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo"),
    ])
  func slowRequests(_ label: String, _ request: String) throws {
    let (server, clients) = try full(HeldPlace.mostExchanges + 1)
    for client in clients { try client.send(request) }
    server.waitForConnections(clients.count) { $0.state.peerWait == .exchange }
    let other = try server.connect(from: "127.0.0.3")
    try other.send(Self.request)
    #expect(try other.response()?.status == 200, "\(label)")
  }

  @Test(
    "of a peer that does not read goes to another address",
    arguments: [
      ("a response", "/large", false), ("a response in parts", "/parts", false),
      ("a last response that the kernel has", "/buffered", false), ("a response over HTTP/2", "/large", true),
      ("a response in parts over HTTP/2", "/parts", true),
    ])
  func slowReaders(_ label: String, _ path: String, _ isHTTP2: Bool) throws {
    let (server, clients) = try full(HeldPlace.mostExchanges + 1, receiveBuffer: 4096, speaksHTTP2: isHTTP2)
    let request =
      isHTTP2
      ? WireFrame.preface + WireFrame.get(path, stream: 1)
      : Array("GET \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".utf8)
    for client in clients { try client.send(request) }
    server.waitForConnections(clients.count) { $0.occupant?.waitsFor == .exchange }
    let other = try server.connect(from: "127.0.0.3")
    try other.send(Self.request)
    #expect(try other.response()?.status == 200, "\(label)")
    server.waitForConnections(clients.count)
  }

  @Test("of an idle connection goes to another address, and one with a request in progress stays")
  func idlePeers() throws {
    let (server, clients) = try full(2)
    for client in clients {
      try client.send(Self.request)
      #expect(try client.response()?.status == 200)
    }
    // An incomplete second request.
    try clients[0].send("GET / HTTP/1.1\r\nHo")
    server.waitForConnections(1) { if case .head = $0.state.phase { true } else { false } }
    let other = try server.connect(from: "127.0.0.3")
    try other.send(Self.request)
    #expect(try other.response()?.status == 200)
    #expect(try clients[1].response() == nil)
    try clients[0].send("st: a\r\n\r\n")
    #expect(try clients[0].response()?.status == 200)
  }
}
