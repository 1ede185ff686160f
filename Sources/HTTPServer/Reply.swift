public import EventLoop
import Glibc
import HTTP1
public import HTTPMessages

/// What a handler has to say to a request: at once, or after a wait.
public enum Reply: Sendable {
  /// The response.
  case immediate(Response)
  /// Work that waits for something, done by a task of the connection's loop. The task is cancelled when the client goes
  /// away. The `Request` is no longer there: what the work needs of it, it takes along.
  case deferred(@Sendable (RequestContext) async -> Response)
}

/// What a handler has to say to the head of a request whose content is still to be read.
public enum HeadReply: Sendable {
  /// The response, whatever the content is.
  case immediate(Response)
  /// The content is wanted. The `Request` is no longer there when it has come: what the handler needs of it, it takes along.
  case read(@Sendable (_ content: [UInt8]) -> Reply)
}

/// What work behind a request has at hand.
public struct RequestContext: Sendable {
  /// The loop that it runs on.
  public let loop: IOLoop
  /// The request's content, as it arrives. If the request has no content, the first read returns nil. The server deals
  /// with content that the handler does not read.
  public let content: any ContentReader
  /// The length of the content in bytes, if the client has said it; 0 without content.
  public let contentLength: Int?

  /// The context of one request.
  public init(loop: IOLoop, content: any ContentReader, contentLength: Int?) {
    self.loop = loop
    self.content = content
    self.contentLength = contentLength
  }
}

/// The value of `Date`, made once a second.
struct DateField {
  private(set) var value: [UInt8] = []
  private var second = -1

  init() {
    update()
  }

  /// Reads the clock: one call of the vDSO.
  mutating func update() {
    let now = Glibc.time(nil)
    guard now != second else { return }
    second = now
    value.removeAll(keepingCapacity: true)
    HTTPDate(secondsSinceEpoch: now).append(to: &value)
  }
}
