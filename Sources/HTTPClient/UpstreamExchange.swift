import DequeModule
import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes
import Memory

/// A connection that carries exchanges over HTTP/1.1 or HTTP/2.
protocol UpstreamConnection: AnyObject {
  /// The number of exchanges that the connection can accept now.
  var room: Int { get }
  /// Whether the connection does not yet know how many exchanges it can carry.
  var isSettling: Bool { get }
  var hasCarried: Bool { get }
  /// Checks the socket before the connection gets another exchange. Returns false if the connection has ended.
  func prepare() -> Bool
  /// Sends the request of an exchange, and reports all results to the exchange. The connection must have room.
  /// - Throws: The reason why the request is not sent. The exchange then receives no report.
  func carry(_ exchange: UpstreamExchange) throws(Unsendable)
  /// Accepts no more exchanges, and ends after the last one in flight.
  func drain()
  /// Releases the resources of an exchange that ended before its response did.
  func abandon(_ exchange: UpstreamExchange)
  /// Records that the reader has read `count` bytes of the response content.
  func contentWasRead(_ count: Int, of exchange: UpstreamExchange)
  /// Closes the connection and fails its exchanges.
  func close()
  /// Sends a part of the request content, never empty. Returns false if the sender must wait for `hasRoom`.
  func send(_ part: [UInt8], of exchange: UpstreamExchange) -> Bool
  func sendEnd(of exchange: UpstreamExchange)
}

/// The reason why a connection does not send a request.
enum Unsendable: Error {
  /// The header section exceeds the limit in the peer's settings, in bytes (RFC 9113 §6.5.2).
  case fieldSectionTooLarge(limit: Int)
  /// No connection can send it.
  case malformed(UpstreamError)
}

/// One request and its response, from the wait for a connection to the last byte. Confined to its loop.
final class UpstreamExchange: UpstreamCall, ChannelDelegate, @unchecked Sendable {
  // Sendable by confinement: `cancel` may run on any thread, but only posts to the loop.
  let request: UpstreamRequest
  /// The stream of the exchange, for HTTP/2.
  var stream: Int32 = 0
  /// Whether the header section exceeded the limit of a peer's settings.
  var isTooLargeForSome = false
  private(set) var content: ReceivedContent?
  /// The sender of the request's content, while the exchange has a connection.
  private(set) var upload: RequestContent?

  private let limits: UpstreamTimeouts
  private let client: UpstreamClient
  private let loop: IOLoop
  private let timer: Channel
  let wholeDeadline: Deadline
  private var phase = Phase.new
  /// The receiver of the outcome, until it has it.
  private var receiver: (any UpstreamReceiver)?

  private enum Phase {
    case new
    /// In the queue of this client, which is another than its own if the request needs HTTP/1.1.
    case waiting(UpstreamClient)
    case sent(any UpstreamConnection)
    case answered(any UpstreamConnection)
    case over
  }

  init(_ request: UpstreamRequest, _ limits: UpstreamTimeouts, by client: UpstreamClient) {
    (self.request, self.limits, self.client) = (request, limits, client)
    loop = client.loop
    timer = client.borrowTimer()
    wholeDeadline = loop.now.advanced(by: limits.whole)
  }

  var isOver: Bool { if case .over = phase { true } else { false } }
  var isAnswered: Bool { if case .answered = phase { true } else { false } }

  func start(_ receiver: any UpstreamReceiver) {
    loop.assertCurrent()
    self.receiver = receiver
    guard !isOver else {
      return deliver(.failure(UpstreamError(.cancelled, .unprocessed, "The request was cancelled.")))
    }
    client.submit(self)
  }

  /// Passes the outcome on at the end of the turn: the receiver may send a request, never within code of a connection.
  private func deliver(_ outcome: Result<UpstreamResponse, UpstreamError>) {
    guard let receiver = receiver.take() else { return }
    loop.atEndOfTurn { receiver.received(outcome) }
  }

  func wait(for client: UpstreamClient) {
    phase = .waiting(client)
    sleep(limits.connect)
  }

  /// Records that the request was written to the transport. The wait for the response starts when its content is sent.
  func sent(by carrier: any UpstreamConnection) {
    phase = .sent(carrier)
    sleep(request.content == nil ? limits.firstByte : nil)
    if let content = request.content { upload = RequestContent(content, of: self, by: carrier, on: loop) }
  }

  /// Records that all request content was written, and starts to wait for a response that has not arrived.
  func contentWasSent() {
    if case .sent = phase { sleep(limits.firstByte) }
  }

  /// Passes the head of the response to the receiver.
  func answered(_ status: Int, _ fields: FieldLines, contentLength: Int?) {
    guard case .sent(let carrier) = phase else { return }
    phase = .answered(carrier)
    sleep(nil)
    let content = ReceivedContent(self, memory: client.configuration.memory, loop: loop)
    self.content = content
    let response = UpstreamResponse(
      status: HTTPResponse.Status(code: status), fields: fields, version: carrier is HTTP2Connection ? "2" : "1.1",
      content: content, contentLength: contentLength)
    deliver(.success(response))
  }

  func finished() {
    guard case .answered = phase else { return }
    end()
    content?.end(.success(()))
  }

  func failed(_ error: UpstreamError) {
    guard !isOver else { return }
    end()
    content?.end(.failure(error.contentError))
    deliver(.failure(error))
  }

  /// Ends the exchange, perhaps before it has started.
  func cancel() { loop.post { self.contentWasCancelled() } }

  func cancelUnlessSent() { loop.post { if self.progress == .unprocessed { self.contentWasCancelled() } } }

  /// Ends the exchange, because its response is not needed any more.
  func contentWasCancelled() { abandon(UpstreamError(.cancelled, progress, "The request was cancelled.")) }

  func contentWasRead(_ count: Int) {
    if case .answered(let carrier) = phase { carrier.contentWasRead(count, of: self) }
  }

  /// Sets the timer to `duration`, but not beyond the whole deadline.
  private func sleep(_ duration: Duration?) {
    timer.sleep(until: min(wholeDeadline, duration.map { loop.now.advanced(by: $0) } ?? .never), self)
  }

  func channel(_ channel: Channel, became readiness: Readiness) {
    loop.assertCurrent()
    guard !isOver else { return }
    guard readiness == .timedOut else {
      return abandon(UpstreamError(.cancelled, progress, "The event loop is stopping."))
    }
    let isWhole = loop.now >= wholeDeadline
    switch phase {
    case .waiting(let client):
      if let error = client.timeoutError(isWhole: isWhole) { abandon(error) } else { sleep(nil) }
    case .sent where !isWhole:
      let words = "No response began within \(limits.firstByte.text)."
      abandon(UpstreamError(.connectionReadTimeout, .unanswered, words))
    case .new, .sent, .answered, .over:
      abandon(UpstreamError(.responseTimeout, progress, "The response was not complete within \(limits.whole.text)."))
    }
  }

  private var progress: UpstreamError.Progress {
    switch phase {
    case .new, .waiting: .unprocessed
    case .sent: .unanswered
    case .answered, .over: .answered
    }
  }

  /// Ends the exchange early, and releases its place in the queue or its connection.
  func abandon(_ error: UpstreamError) {
    let phase = phase
    failed(error)
    switch phase {
    case .new, .over: break
    case .waiting(let client): client.leave(self)
    case .sent(let carrier), .answered(let carrier): carrier.abandon(self)
    }
  }

  private func end() {
    phase = .over
    upload.take()?.cancel()
    client.takeBack(timer)
  }
}

extension Duration {
  /// The duration as text: `10 s` or `250 ms`.
  var text: String {
    let milliseconds = components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    return milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(milliseconds) ms"
  }
}

/// The queue of response content between a connection and its reader. Confined to its loop.
final class ReceivedContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement: used on its loop only. A cancellation handler may run on any thread, but only posts.
  /// The number of unread bytes, charged even beyond the budget: the upstream sends no more than its window.
  private(set) var buffered = 0 { didSet { hold.force(to: buffered) } }
  /// The number of unread bytes for which the upstream may send others, and the most of them.
  private var (credited, ahead) = (0, 0)
  /// What the reader wants to be called when the content has ended.
  private var ended: (@Sendable (Result<Void, ContentError>) -> Void)?

  private let hold: MemoryHold
  private let loop: IOLoop
  /// The exchange, until the content has ended. It ends in every case, so the two do not keep each other for ever.
  private var exchange: UpstreamExchange?
  private var parts: Deque<[UInt8]> = []
  /// The end of the content, once it is known.
  private var ending: Result<Void, ContentError>?
  private var reader = Waiter<Result<[UInt8]?, ContentError>>()

  /// The greatest total size of small parts that are joined, so that one read returns many of them.
  private static let joined = 16_384

  init(_ exchange: UpstreamExchange, memory: MemoryBudget, loop: IOLoop) {
    hold = MemoryHold(memory, for: nil)
    (self.exchange, self.loop) = (exchange, loop)
  }

  func read() async throws(ContentError) -> [UInt8]? {
    loop.assertCurrent()
    if let result = next() { return try result.get() }
    let result = await withTaskCancellationHandler {
      await unsafe withUnsafeContinuation { continuation in unsafe reader.take(continuation) }
    } onCancel: {
      loop.post { self.cancel() }
    }
    return try result.get()
  }

  func readAtOnce() throws(ContentError) -> AvailableContent {
    loop.assertCurrent()
    guard let result = next() else { return .nothing }
    return try result.get().map { .part($0) } ?? .end
  }

  func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
  ) {
    loop.assertCurrent()
    hold.move(to: holder)
    if let ending { return ended(ending) }
    (ahead, self.ended) = (limit, ended)
    creditAhead()
  }

  func cancel() {
    guard ending == nil || !parts.isEmpty else { return }
    (parts, buffered, credited) = ([], 0, 0)
    ending = .failure(.cancelled)
    reader.resume(returning: .failure(.cancelled))
    exchange.take()?.contentWasCancelled()
    ended.take()?(.failure(.cancelled))
  }

  /// Returns the result that a reader can have at once, or nil if it must wait.
  private func next() -> Result<[UInt8]?, ContentError>? {
    guard let part = parts.popFirst() else { return ending?.map { nil } }
    let credit = min(credited, part.count)
    buffered -= part.count
    credited -= credit
    if credit < part.count { exchange?.contentWasRead(part.count - credit) }
    creditAhead()
    return .success(part)
  }

  /// Lets the upstream send as much again as has arrived, within the limit and if the memory budget grants that.
  private func creditAhead() {
    let count = min(uncredited, ahead - credited)
    guard count > 0, ending == nil, hold.resize(to: buffered + count, for: .response) else { return }
    credited += count
    exchange?.contentWasRead(count)
  }

  /// The number of unread bytes that count against the upstream's window.
  var uncredited: Int { buffered - credited }

  func append(_ part: [UInt8]) {
    guard ending == nil, !part.isEmpty else { return }
    if let last = parts.last, last.count + part.count <= Self.joined {
      parts[parts.count - 1] += part
    } else {
      parts.append(part)
    }
    buffered += part.count
    if reader.isWaiting, let result = next() { reader.resume(returning: result) } else { creditAhead() }
  }

  /// Ends the content, complete or with an error. The reader receives all buffered parts before the end.
  func end(_ ending: Result<Void, ContentError>) {
    guard self.ending == nil else { return }
    self.ending = ending
    exchange = nil
    hold.force(to: buffered)
    if reader.isWaiting, let result = next() { reader.resume(returning: result) }
    ended.take()?(ending)
  }
}

/// At most one waiting task. `resume` resumes it once and then forgets it.
// Safe: `resume` removes the continuation before it resumes it.
@safe struct Waiter<Value: Sendable> {
  private var continuation: UnsafeContinuation<Value, Never>?

  var isWaiting: Bool { unsafe continuation != nil }

  /// Stores the continuation of a task that waits. No other task may be waiting.
  mutating func take(_ continuation: UnsafeContinuation<Value, Never>) {
    unsafe self.continuation = unsafe continuation
  }

  /// Resumes the task, if one waits.
  mutating func resume(returning value: Value) {
    let continuation = unsafe continuation
    unsafe self.continuation = nil
    unsafe continuation?.resume(returning: value)
  }
}
