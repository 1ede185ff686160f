import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPTypes
import Memory
import TLS
import TestSupport
import Testing

@testable import HTTPServer

extension ServerLimits {
  /// The usual limits, without those of time that a busy machine may reach.
  static let unhurried: ServerLimits = {
    var limits = ServerLimits()
    let hour = Duration.seconds(3600)
    (limits.tlsHandshake, limits.headerSection, limits.idle) = (hour, hour, hour)
    (limits.body, limits.bodyProgress, limits.writeProgress) = (hour, hour, hour)
    (limits.work, limits.cancelledWork) = (hour, hour)
    return limits
  }()
}

/// A server on a free port of loopback, with its own loops.
final class TestServer: Sendable {
  let server: Server
  let recorder = Recorder()
  let port: UInt16
  private let loops: [IOLoop]
  private let isTLS: Bool

  init(
    _ variant: Variant, limits: ServerLimits = .unhurried, router: Router = .test, loops count: Int = 1,
    roundTrip: Duration? = nil, speaksHTTP2: Bool = false, requiresProxyHeader: Bool = false, tls: TLSContext? = nil,
    forwardedField: ForwardedHops.Field = .forwardedFor, memory: MemoryBudget = .unlimited(),
    trusts isTrusted: @escaping @Sendable (IPAddress) -> Bool = { _ in false }
  ) throws {
    var configuration = Server.Configuration(endpoint: .tcp(host: "127.0.0.1", port: 0), observer: recorder)
    configuration.tls = variant.isTLS ? try tls ?? TLSContext.shared.get() : nil
    configuration.limits = limits
    configuration.memory = memory
    configuration.roundTrip = roundTrip
    configuration.http2 = speaksHTTP2 ? .byPreface : .never
    configuration.isTrustedProxy = isTrusted
    configuration.forwardedField = forwardedField
    configuration.requiresProxyHeader = requiresProxyHeader
    loops = try (0..<count).map { try IOLoop.start(label: "test.loop.\($0)", poller: variant.poller) }
    server = try Server(configuration, router: router, loops: loops)
    isTLS = variant.isTLS
    guard let port = server.addresses.first?.port else { throw TestFailure("The server has no port.") }
    self.port = port
  }

  deinit {
    server.drain(timeout: .zero)
    for loop in loops { loop.stop() }
  }

  func connect(
    from source: String? = nil, receiveBuffer: Int32? = nil, connectPatience: Int? = nil
  ) throws -> RawClient {
    try RawClient(
      port: port, from: source, isTLS: isTLS, receiveBuffer: receiveBuffer, connectPatience: connectPatience)
  }

  /// Sends `text` on a new connection, and reads all responses until the server closes.
  func responses(to text: String) throws -> [RawResponse] {
    try responses(to: Array(text.utf8))
  }

  func responses(to bytes: [UInt8]) throws -> [RawResponse] {
    let client = try connect()
    try client.send(bytes)
    var responses: [RawResponse] = []
    while let response = try client.response() { responses.append(response) }
    return responses
  }

  /// The results of `body` for each loop's share of the server.
  func workers<Result: Sendable>(_ body: @escaping @Sendable (Worker) -> Result) -> [Result] {
    server.workers.compactMap { worker in
      let response = Response<Result>()
      worker.loop.performAndWait { response.value = body(worker) }
      return response.value
    }
  }

  /// The number of connections.
  var connections: Int { workers { $0.connections.count }.reduce(0, +) }

  /// Waits until `condition` is true for exactly `count` connections. A minute without them fails the test.
  func waitForConnections(
    _ count: Int, sourceLocation: SourceLocation = #_sourceLocation,
    where condition: @escaping @Sendable (Connection) -> Bool = { _ in true }
  ) {
    wait(for: "\(count) connections in the state that the test needs", sourceLocation: sourceLocation) {
      workers { $0.connections.count(where: condition) }.reduce(0, +) == count
    }
  }

  /// Blocks every loop until `gate` opens.
  func occupy(until gate: Gate) {
    for loop in loops {
      let isOccupied = Gate()
      loop.post {
        isOccupied.open()
        gate.wait()
      }
      isOccupied.wait()
    }
  }

  /// Runs an action on each loop with its share, without waiting for it.
  func post(_ action: @escaping @Sendable (Worker) -> Void) {
    for worker in server.workers { worker.loop.post { action(worker) } }
  }

  private final class Response<Value>: @unchecked Sendable {
    // Sendable: written before the wait for the loop, and read after it.
    var value: Value?
  }
}

extension Router {
  /// `/hello` answers; `/echo` accepts content of up to 100 000 bytes; `/large` returns 5 MiB.
  static let test = Router([
    Route("/hello", [.get { _ in Response(.ok, fields: [.contentType: "text/plain"], body: Array("hello".utf8)) }]),
    Route(
      "/echo",
      [
        .get { request in Response(.ok, body: Array(request.query ?? [])) },
        .post(bodyLimit: 100_000) { _ in .read { content in .immediate(Response(.ok, body: content)) } },
      ]),
    Route("/large", [.get { _ in Response(.ok, body: large) }]),
  ])

  /// 5 MiB without repetition.
  static let large = (0..<5 * 1024 * 1024 / 4).flatMap { number in
    let mixed = UInt32(truncatingIfNeeded: number) &* 2_654_435_761
    return [
      UInt8(truncatingIfNeeded: mixed >> 24), UInt8(truncatingIfNeeded: mixed >> 16),
      UInt8(truncatingIfNeeded: mixed >> 8), UInt8(truncatingIfNeeded: mixed),
    ]
  }
}

extension TLSContext {
  /// A context with a self-signed certificate, made once.
  static let shared = Result { () throws -> TLSContext in
    let certificate = try Certificate(key: KeyPair())
    let directory = try TemporaryDirectory()
    return try TLSContext(
      certificate: PEMFile(directory.write(certificate.pem, to: "certificate.pem")),
      key: PEMFile(directory.write(certificate.key.pem, to: "key.pem")))
  }
}
