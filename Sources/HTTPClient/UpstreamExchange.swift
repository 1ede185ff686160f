import EventLoop
import HTTPMessages
import HTTPTypes
import Memory

/// What carries exchanges: one connection, whichever protocol it speaks.
protocol UpstreamConnection: AnyObject {
  /// How many exchanges it can take on now.
  var room: Int { get }
  /// Whether it has yet to find out how much it can take on.
  var isSettling: Bool { get }
  /// Whether it has carried an exchange.
  var hasCarried: Bool { get }
  /// Looks at the socket before another exchange is given to it.
  /// - Returns: Whether the connection can still be used; if not, it has ended.
  func prepare() -> Bool
  /// Sends the request of an exchange, which is told all that comes of it. There must be room.
  /// - Throws: Why the request is not sent. The exchange is told nothing then.
  func carry(_ exchange: UpstreamExchange) throws(Unsendable)
  /// Takes on nothing more, and ends when what it carries has.
  func drain()
  /// An exchange is over before its response is: what carries it is released.
  func abandon(_ exchange: UpstreamExchange)
  /// So much of a response's content has been read.
  func contentWasRead(_ count: Int, of exchange: UpstreamExchange)
  /// Ends it, and what it carries.
  func close()
}

/// Why a connection does not send a request.
enum Unsendable: Error {
  /// The peer has said that it takes no header section as large as this one, in bytes (RFC 9113 §6.5.2).
  case fieldSectionTooLarge(limit: Int)
  /// No connection would send it.
  case malformed(UpstreamError)
}

/// Whom an exchange waits at before it is carried.
protocol ExchangeQueue: AnyObject {
  /// An exchange waits no more.
  func leave(_ ticket: WaitingList<UpstreamExchange>.Ticket)
  /// An exchange's time for a connection is over.
  /// - Returns: Why it fails; nil if it should wait on, for the whole of its time.
  func connectTimedOut() -> UpstreamError?
  /// The same when all of its time is over.
  func waitTimedOut() -> UpstreamError
}

/// One request and its response, from the wait for a connection to the last byte.
///
/// While it waits it is this object and a timer without descriptor; neither task nor buffer. Confined to its loop.
final class UpstreamExchange: ChannelDelegate, @unchecked Sendable {
  // Sendable by confinement: a cancellation handler, which may run anywhere, only posts to the loop.

  let request: UpstreamRequest
  /// The stream that carries it, for HTTP/2.
  var stream: Int32 = 0
  /// Whether a peer's settings said that the header section is too large for it.
  var isTooLargeForSome = false
  private(set) var content: ReceivedContent?

  private let limits: UpstreamTimeouts
  private let memory: MemoryBudget
  private let loop: IOLoop
  private let timer: Channel
  /// When all of it must be over.
  let wholeDeadline: Deadline
  private var phase = Phase.new
  private var waiter = Waiter<Outcome>()

  /// The response once its head has arrived, or the error.
  typealias Outcome = Result<UpstreamResponse, UpstreamError>

  private enum Phase {
    case new
    case waiting(WaitingList<UpstreamExchange>.Ticket, any ExchangeQueue)
    case sent(any UpstreamConnection)
    case answered(any UpstreamConnection)
    case over
  }

  init(_ request: UpstreamRequest, _ limits: UpstreamTimeouts, memory: MemoryBudget, loop: IOLoop) {
    self.request = request
    self.limits = limits
    self.memory = memory
    self.loop = loop
    timer = loop.openTimer()
    wholeDeadline = loop.now.advanced(by: limits.whole)
  }

  /// Whether the exchange has ended.
  var isOver: Bool { if case .over = phase { true } else { false } }

  var isAnswered: Bool { if case .answered = phase { true } else { false } }

  // MARK: Its life

  /// Takes the continuation to resume with the outcome. Must be called first.
  func start(_ continuation: UnsafeContinuation<Outcome, Never>) {
    loop.assertCurrent()
    unsafe waiter.take(continuation)
  }

  /// Waits for a connection.
  func wait(_ ticket: WaitingList<UpstreamExchange>.Ticket, in queue: any ExchangeQueue) {
    loop.assertCurrent()
    phase = .waiting(ticket, queue)
    sleep(limits.connect)
  }

  /// The request has been handed to the transport, or its content has: the response is due.
  func sent(by carrier: any UpstreamConnection) {
    loop.assertCurrent()
    phase = .sent(carrier)
    sleep(limits.firstByte)
  }

  /// The request's content, which may take its time, is being sent.
  func isSending(by carrier: any UpstreamConnection) {
    loop.assertCurrent()
    phase = .sent(carrier)
    sleep(nil)
  }

  /// All content of the request has been handed over; unless the response was there before.
  func contentWasSent() {
    loop.assertCurrent()
    if case .sent = phase { sleep(limits.firstByte) }
  }

  /// The head of the response has come.
  func answered(_ status: Int, _ fields: HTTPFields, contentLength: Int?) {
    loop.assertCurrent()
    guard case .sent(let carrier) = phase else { return }
    phase = .answered(carrier)
    sleep(nil)
    let content = ReceivedContent(self, memory: memory, loop: loop)
    self.content = content
    let response = UpstreamResponse(
      status: HTTPResponse.Status(code: status), fields: fields, version: carrier is HTTP2Connection ? "2" : "1.1",
      content: content, contentLength: contentLength)
    waiter.resume(returning: .success(response))
  }

  /// The response is whole.
  func finished() {
    loop.assertCurrent()
    guard case .answered = phase else { return }
    end()
    content?.end(.success(()))
  }

  /// It will come to nothing.
  func failed(_ error: UpstreamError) {
    loop.assertCurrent()
    guard !isOver else { return }
    end()
    content?.end(.failure(error.contentError))
    waiter.resume(returning: .failure(error))
  }

  /// Ends the exchange, because the caller no longer waits for it.
  func cancel() {
    loop.assertCurrent()
    abandon(UpstreamError(.cancelled, progress, "The request was cancelled."))
  }

  func contentWasRead(_ count: Int) {
    loop.assertCurrent()
    guard case .answered(let carrier) = phase else { return }
    carrier.contentWasRead(count, of: self)
  }

  // MARK: Time

  /// Waits for as long, if that is less than what is left of the whole.
  private func sleep(_ duration: Duration?) {
    timer.sleep(until: min(wholeDeadline, duration.map { loop.now.advanced(by: $0) } ?? .never), self)
  }

  func channel(_ channel: Channel, became readiness: Readiness) {
    loop.assertCurrent()
    guard !isOver else { return }
    guard readiness == .timedOut else { return abandon(UpstreamError(.cancelled, progress, "The loop is ending.")) }
    let isWhole = loop.now >= wholeDeadline
    switch phase {
    case .waiting(_, let queue):
      if let error = isWhole ? queue.waitTimedOut() : queue.connectTimedOut() { abandon(error) } else { sleep(nil) }
    case .sent where !isWhole:
      let words = "No response began within \(limits.firstByte.text)."
      abandon(UpstreamError(.connectionReadTimeout, .unanswered, words))
    case .new, .sent, .answered, .over:
      abandon(UpstreamError(.responseTimeout, progress, "The response was not whole within \(limits.whole.text)."))
    }
  }

  private var progress: UpstreamError.Progress {
    switch phase {
    case .new, .waiting: .unprocessed
    case .sent: .unanswered
    case .answered, .over: .answered
    }
  }

  // MARK: The end

  /// Ends it before its time.
  private func abandon(_ error: UpstreamError) {
    let phase = phase
    failed(error)
    switch phase {
    case .new, .over: break
    case .waiting(let ticket, let queue): queue.leave(ticket)
    case .sent(let carrier), .answered(let carrier): carrier.abandon(self)
    }
  }

  private func end() {
    phase = .over
    timer.close()
  }
}

extension Duration {
  /// `10 s` or `250 ms`.
  var text: String {
    let milliseconds = components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    return milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(milliseconds) ms"
  }
}
