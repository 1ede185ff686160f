import EventLoop
import HTTP1
package import HTTPMessages
import HTTPTypes
import Memory
import TLS

/// The life of a request, in both versions of HTTP:
///
///     serve: route ─► handler ─┬─ response ─► respond ─┬─ whole ────────────► record
///                              │                       └─ stream, in parts ─► record
///                              ├─ work ─► workEnded ─► respond
///                              └─ content ─► follow ─► respond, or work
///
/// Each function takes all steps that need no wait, and returns the one that does.
extension ExchangeCarrier {
  /// Responds to a request whose head is complete, unless its content or its work comes first.
  func serve(_ request: Request) throws(CloseReason) -> ExchangeStep {
    guard let router = request.router else { return .done }
    let operation: Operation
    do {
      operation = try router.operation(for: request)
    } catch {
      try checkArrivedContent(of: request)
      return try respond(error.response(id: request.id), to: request)
    }
    switch operation.action {
    case .reply(let handler):
      try checkArrivedContent(of: request)
      // A preflight request (the Fetch standard, §3.3.2) costs little, and its refusal would look like a broken network.
      if operation.isRefusedEarly, request.method != .options, connection.worker.isBehind,
        let refusal = connection.earlyRefusal(of: request)
      {
        return try respond(refusal, to: request)
      }
      switch handler(request) {
      case .immediate(let response): return try respond(response, to: request)
      case .deferred(let work):
        if let response = connection.responseInstead(of: work, for: request) {
          return try respond(response, to: request)
        }
        return .work(work)
      }
    case .read(let limit, let handler):
      switch handler(request) {
      case .immediate(let response):
        try checkArrivedContent(of: request)
        return try respond(response, to: request)
      case .read(let reply):
        if let length = request.head.framing.declaredLength, length > limit {
          return try respond(ErrorResponse.contentTooLarge(limit).response(id: request.id), to: request)
        }
        readContent(of: request, atMost: limit, then: reply)
        return .done
      }
    }
  }

  func follow(_ reply: consuming Reply, to request: Request) throws(CloseReason) -> ExchangeStep {
    switch consume reply {
    case .immediate(let response): try respond(response, to: request)
    case .deferred(let work): .work(work)
    }
  }

  /// Sends a response, or a refusal if the server has no memory for it, and records it.
  func respond(_ response: consuming Response, to request: Request) throws(CloseReason) -> ExchangeStep {
    request.router?.finish(&response, request)
    makeAffordable(&response, for: request)
    connection.secure(&response)
    if let content = response.stream { return .stream(response, content) }
    let (bytes, goesOn) = try send(response, to: request)
    connection.worker.observer.completed(request, response, bytes: bytes)
    try conclude(request, goesOn: goesOn)
    return .done
  }

  /// Sends a response with content in parts, at the client's pace, and records it.
  func stream(_ response: Response, _ content: any ContentReader, to request: Request) async throws(CloseReason) {
    var bytes = 0
    let goesOn: Bool
    do throws(CloseReason) {
      let framing = StreamFraming(response, version: request.head.version, isHead: request.method == .head)
      goesOn = try sendHead(of: response, framing, to: request)
      if framing.isBodiless {
        content.cancel()
      } else {
        while let part = try await part(of: content) {
          bytes += part.count
          if let length = framing.contentLength, bytes > length { throw .brokenOff }
          try await send(part, framing)
        }
        if let length = framing.contentLength, bytes < length { throw .brokenOff }
        endContent(framing)
      }
    } catch {
      content.cancel()
      connection.worker.observer.completed(request, response, bytes: bytes)
      throw error
    }
    connection.worker.observer.completed(request, response, bytes: bytes)
    try conclude(request, goesOn: goesOn)
  }

  /// Replaces a response by a refusal if there is not enough memory to hold it for a slow reader.
  private func makeAffordable(_ response: inout Response, for request: Request) {
    guard response.body.count >= Connection.leastShared, request.method != .head, response.hasContent else { return }
    if connection.worker.configuration.memory.charge(shared: response.body, to: request.client.holder) {
      return keep(charged: response.body)
    }
    connection.worker.observer.noticed(.memoryRefused(connection.peer.address))
    response = ErrorResponse.overMemory.response(id: request.id)
    request.router?.finish(&response, request)
  }
}

/// The work of a request: it waits for its turn, and then for its response, without a task of the server.
final class RequestWork: AwaitedTurn, @unchecked Sendable {
  // Sendable by confinement, like the connection.
  let request: Request
  private let work: DeferredWork
  private var context: RequestContext
  private let carrier: any ExchangeCarrier
  private let began: Deadline
  private var running: (any CancellableWork)?
  private var isCancelled = false
  private var hasEnded = false

  /// Lines the work up. `content` is nil without content, or if all of it has been read.
  init(_ work: DeferredWork, of request: Request, _ content: (any ContentReader)?, on carrier: any ExchangeCarrier) {
    (self.work, self.request, self.carrier) = (work, request, carrier)
    context = RequestContext(
      loop: request.loop, content: content, contentLength: content == nil ? 0 : request.head.framing.declaredLength)
    began = context.loop.now
    carrier.connection.worker.lineUp(self, .request, of: request.client.holder, since: request.arrival)
  }

  func isDue(isTimely: Bool) {
    guard isTimely else { return end(carrier.connection.shed(work, of: request)) }
    // A client that has gone meanwhile receives no response.
    guard !isCancelled else { return end(ErrorResponse.draining.response(id: request.id)) }
    context.waited = Deadline.now.duration(since: began)
    let running = work.begin(context) { self.end($0) }
    if !hasEnded { self.running = running }
  }

  func cancel() {
    context.loop.assertCurrent()
    isCancelled = true
    running?.cancel()
  }

  private func end(_ response: consuming Response) {
    context.loop.assertCurrent()
    hasEnded = true
    running = nil
    carrier.workEnded(self, response)
  }
}

enum ExchangeStep {
  /// The response is complete, or its request's content is still to come.
  case done
  case work(DeferredWork)
  indirect case stream(Response, any ContentReader)
  /// The response and enough earlier ones are complete: they are sent, and other connections have a turn.
  case turn

  var isDone: Bool { if case .done = self { true } else { false } }
}

/// The reason why a connection ends. The errors are indirect, because every connection has room for a reason.
enum CloseReason: Error, Equatable {
  /// The peer is gone or does not read, so nothing more is sent.
  case gone
  /// The last response announces the close. `lingers` is true if the peer may still be sending.
  case finished(lingers: Bool)
  /// The peer must not treat the last response as complete.
  case brokenOff
  /// The refusal of a request makes the following bytes of the connection meaningless.
  indirect case refused(ErrorResponse)
  /// The TLS session is over. Its last bytes are in `outgoing`.
  indirect case failedTLS(TLSError)
}

/// What carries exchanges: a connection of HTTP/1.1 one after the other, a stream of HTTP/2 one.
protocol ExchangeCarrier: AnyObject {
  var connection: Connection { get }
  /// Checks the content that has arrived and that no operation reads. Throws the refusal of malformed framing.
  func checkArrivedContent(of request: Request) throws(CloseReason)
  /// Reads the whole content, and then follows the reply to it. The request keeps only what the response needs.
  func readContent(of request: Request, atMost limit: Int, then reply: @escaping @Sendable ([UInt8]) -> Reply)
  /// Responds after the work of the request. Called once.
  func workEnded(_ work: RequestWork, _ response: consuming Response)
  /// Keeps a body that is charged as a shared array until it is sent.
  func keep(charged body: [UInt8])
  /// Sends a whole response. Returns the number of content bytes, and whether the connection serves another request.
  func send(_ response: Response, to request: Request) throws(CloseReason) -> (bytes: Int, goesOn: Bool)
  /// Sends the head of a response with content in parts. Returns whether the connection serves another request.
  func sendHead(of response: Response, _ framing: StreamFraming, to request: Request) throws(CloseReason) -> Bool
  /// Waits for the next part of the response. Throws also if the client has gone.
  func part(of content: any ContentReader) async throws(CloseReason) -> [UInt8]?
  /// Sends a part, and waits until there is room for another one.
  func send(_ part: [UInt8], _ framing: StreamFraming) async throws(CloseReason)
  func endContent(_ framing: StreamFraming)
  func conclude(_ request: Request, goesOn: Bool) throws(CloseReason)
}

/// The framing of content that is sent in parts (RFC 9112 §6). HTTP/2 has frames of its own for content of any length.
struct StreamFraming {
  /// The length of the response to a GET, if known.
  let contentLength: Int?
  /// Whether the status or the method allows no content.
  let isBodiless: Bool
  /// Whether the end of the connection ends the content, the only framing of HTTP/1.0 without a length.
  let isUntilClose: Bool
  var isChunked: Bool { !isBodiless && contentLength == nil && !isUntilClose }

  init(_ response: Response, version: HTTPVersion, isHead: Bool) {
    contentLength = response.streamLength
    isBodiless = isHead || !response.hasContent
    isUntilClose = !isBodiless && contentLength == nil && version == .http10
  }
}

extension MessageFraming {
  var declaredLength: Int? { if case .fixed(let length) = self { length } else { nil } }
}

extension Response {
  /// Whether the status allows content (RFC 9110 §6.4.1).
  var hasContent: Bool { status.code != 204 && status.code != 304 }
}

extension Connection {
  /// The minimum size of a response body that is sent from the handler's own array, possibly shared, without a copy.
  static let leastShared = 16_384
  /// The status in logs for a response that the client did not wait for. nginx uses the same number.
  static let clientClosedRequest = 499

  func recordGone(_ request: Request) {
    worker.observer.completed(request, Response(.init(code: Self.clientClosedRequest)), bytes: 0)
  }
}

/// An observer of responses and notices. The server calls it on an event loop, so it must not block.
package protocol ExchangeObserver: Sendable {
  /// Returns the observer for one loop, once per loop, so that loops need share no state.
  func forOneLoop() -> any ExchangeObserver
  /// The number of bytes of each path that the observer records.
  var recordedPathBytes: Int { get }
  /// Records a response that is about to be written, with the number of content bytes; with status 499, a request whose
  /// client did not wait. The observer must not keep the request.
  func completed(_ request: Request, _ response: Response, bytes: Int)
  /// Receives a notice for the operator about an event outside of any request.
  func noticed(_ notice: ServerNotice)
}

extension ExchangeObserver {
  package func forOneLoop() -> any ExchangeObserver { self }
  package var recordedPathBytes: Int { 0 }
}
