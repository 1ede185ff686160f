import Bytes
import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes
import TLS
import TestSupport

@testable import HTTPClient

/// A client on its own loop, used from a thread that waits.
final class TestClient: Sendable {
  let client: UpstreamClient
  let loop: IOLoop

  static let patient = UpstreamTimeouts(connect: .seconds(60), firstByte: .seconds(60), whole: .seconds(60))

  /// The server, kept alive as long as the client.
  private let upstream: (any AnyObject & Sendable)?

  init(_ configuration: UpstreamClient.Configuration, of upstream: (any AnyObject & Sendable)? = nil) throws {
    self.upstream = upstream
    loop = try IOLoop.start(label: "test.client")
    client = UpstreamClient(configuration, loop: loop)
  }

  /// A client for a port of loopback, without TLS.
  convenience init(
    port: UInt16, of upstream: (any AnyObject & Sendable)? = nil,
    _ change: (inout UpstreamClient.Configuration) -> Void = { _ in }
  ) throws {
    var configuration = UpstreamClient.Configuration(.http, host: "127.0.0.1", port: port)
    change(&configuration)
    try self.init(configuration, of: upstream)
  }

  /// A client for a port of `localhost` over TLS.
  convenience init(
    tls context: TLSClientContext, port: UInt16, host: String = "localhost",
    of upstream: (any AnyObject & Sendable)? = nil,
    _ change: (inout UpstreamClient.Configuration) -> Void = { _ in }
  ) throws {
    var configuration = UpstreamClient.Configuration(.https, host: host, port: port, tls: context)
    change(&configuration)
    try self.init(configuration, of: upstream)
  }

  deinit {
    client.close()
    loop.stop()
  }

  /// Starts to send a request.
  func send(
    _ method: HTTPRequest.Method = .get, _ target: ByteString = "/", fields: FieldLines = [:],
    credential: FieldLines = [:], content: (any ContentReader)? = nil, contentLength: Int? = nil,
    limits: UpstreamTimeouts = patient
  ) -> Call {
    let request = UpstreamRequest(
      method, target, fields: fields, credential: credential, content: content, contentLength: contentLength)
    let client = client
    let outcome = Once<Result<UpstreamResponse, UpstreamError>>()
    let task = Task(executorPreference: loop) {
      do throws(UpstreamError) {
        outcome.give(.success(try await client.send(request, limits: limits)))
      } catch {
        outcome.give(.failure(error))
      }
    }
    return Call(client: self, task: task, outcome: outcome)
  }

  /// Sends a request and reads its whole response.
  func get(_ target: ByteString = "/", limits: UpstreamTimeouts = patient) throws -> Received {
    try send(.get, target, limits: limits).received()
  }

  /// Returns the result of `body`, which runs on the loop.
  func onLoop<Value: Sendable>(_ body: @escaping @Sendable (UpstreamClient) -> Value) throws(TestFailure) -> Value {
    let value = Once<Value>()
    let client = client
    loop.post { value.give(body(client)) }
    return try value.wait()
  }

  /// Waits until `condition` holds on the loop.
  /// - Throws: `TestFailure` if `condition` does not hold within a minute.
  func wait(until condition: @escaping @Sendable (UpstreamClient) -> Bool) throws(TestFailure) {
    let end = ContinuousClock.now + .seconds(60)
    while try !onLoop(condition) {
      guard ContinuousClock.now < end else { throw TestFailure("The client did not come to what the test waits for.") }
    }
  }
}

/// A request in flight.
struct Call: Sendable {
  /// Kept alive as long as this call.
  let client: TestClient
  let task: Task<Void, Never>
  let outcome: Once<Result<UpstreamResponse, UpstreamError>>

  private var loop: IOLoop { client.loop }

  /// Waits for the head of the response.
  func response() throws -> UpstreamResponse { try outcome.wait().get() }

  /// The error of the request; nil if there is a response.
  func failure() throws(TestFailure) -> UpstreamError? {
    guard case .failure(let error) = try outcome.wait() else { return nil }
    return error
  }

  /// Waits for the whole response.
  func received() throws -> Received {
    let response = try response()
    var content: [UInt8] = []
    do {
      while let part = try read(response) { content += part }
      return Received(response: response, content: content, error: nil)
    } catch let error as ContentError {
      return Received(response: response, content: content, error: error)
    }
  }

  /// The next part of the content.
  func read(_ response: UpstreamResponse) throws -> [UInt8]? {
    let part = Once<Result<[UInt8]?, ContentError>>()
    Task(executorPreference: loop) {
      do throws(ContentError) {
        part.give(.success(try await response.content.read()))
      } catch {
        part.give(.failure(error))
      }
    }
    return try part.wait().get()
  }

  func cancelContent(_ response: UpstreamResponse) {
    loop.performAndWait { response.content.cancel() }
  }
}

/// A response with its content.
struct Received {
  let response: UpstreamResponse
  let content: [UInt8]
  /// Why the content is incomplete.
  let error: ContentError?

  var status: Int { response.status.code }
  var text: String { String(decoding: content, as: UTF8.self) }
}

/// Content of five bytes that are available once a test opens the gate.
final class GatedContent: ContentReader, @unchecked Sendable {
  // Sendable: used on one loop only, after it is made.
  private var waiter = Waiter<Void>()
  private var isOpen = false
  private var isRead = false

  func open() {
    isOpen = true
    waiter.resume(returning: ())
  }

  func read() async throws(ContentError) -> [UInt8]? {
    guard !isRead else { return nil }
    isRead = true
    if !isOpen { await unsafe withUnsafeContinuation { unsafe waiter.take($0) } }
    return Array("hello".utf8)
  }

  func cancel() { open() }
}

/// Content that a test provides in parts.
final class GivenContent: ContentReader, @unchecked Sendable {
  // Sendable: used on one loop only, after it is made.
  private var parts: [[UInt8]]
  private let ending: ContentError?
  private(set) var reads = 0

  init(_ parts: [[UInt8]], ending: ContentError? = nil) {
    self.parts = parts
    self.ending = ending
  }

  func read() async throws(ContentError) -> [UInt8]? {
    reads += 1
    if !parts.isEmpty { return parts.removeFirst() }
    if let ending { throw ending }
    return nil
  }

  func cancel() {}
}
