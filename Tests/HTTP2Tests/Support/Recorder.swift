import HTTP1
import HTTP2
import HTTPTypes

/// Records the events of a session, and runs a test's reaction to each.
final class Recorder: HTTP2SessionDelegate {
  enum Event: Equatable {
    case request(HTTP2StreamID, HTTP2RequestHead)
    case oversizedRequest(HTTP2StreamID)
    case response(HTTP2StreamID, HTTP2ResponseHead)
    case content(HTTP2StreamID, [UInt8])
    case end(HTTP2StreamID)
    case room(HTTP2StreamID)
    case closed(HTTP2StreamID, HTTP2StreamClosure.Cause, HTTP2ErrorCode)
    case goAway(HTTP2GoAway)
    case settings
    case pong(UInt64)
  }

  private(set) var events: [Event] = []
  private var contents: [HTTP2StreamID: [UInt8]] = [:]
  /// Called with each event, after the event was recorded.
  var reaction: (Event) -> Void = { _ in }

  /// The events without settings, with adjacent parts of a stream's content joined, so the same wherever bytes are
  /// split.
  var story: [Event] {
    var story: [Event] = []
    for event in events where event != .settings {
      if case .content(let stream, let more) = event, case .content(stream, let content) = story.last {
        story[story.count - 1] = .content(stream, content + more)
      } else {
        story.append(event)
      }
    }
    return story
  }

  /// All content that arrived on `stream`.
  func content(on stream: HTTP2StreamID) -> [UInt8] { contents[stream] ?? [] }

  /// The cause of the end of `stream`; nil if the stream has not ended, or ended more than once.
  func cause(of stream: HTTP2StreamID) -> HTTP2StreamClosure.Cause? {
    let causes = events.compactMap { event -> HTTP2StreamClosure.Cause? in
      guard case .closed(stream, let cause, _) = event else { return nil }
      return cause
    }
    return causes.count == 1 ? causes[0] : nil
  }

  /// The streams on which requests arrived, in order.
  var requests: [HTTP2StreamID] {
    events.compactMap { if case .request(let stream, _) = $0 { stream } else { nil } }
  }

  func receivedRequest(_ request: HTTP2ReceivedRequest, on stream: HTTP2StreamID) {
    guard request.isOversized else { return note(.request(stream, HTTP2RequestHead(request))) }
    func text(_ range: Range<Int>) -> String {
      let start = request.bytes.startIndex
      return String(decoding: request.bytes[start + range.lowerBound..<start + range.upperBound], as: UTF8.self)
    }
    rests.append(request.fields.map { "\(text($0.name)): \(text($0.value))" })
    note(.oversizedRequest(stream))
  }
  /// The lines that were kept of oversized requests.
  private(set) var rests: [[String]] = []
  /// The causes of the ends of requests that were not delivered.
  private(set) var lost: [HTTP2StreamClosure.Cause] = []

  func lostRequest(_ closure: HTTP2StreamClosure) { lost.append(closure.cause) }
  func receivedResponse(_ head: HTTP2ResponseHead, on stream: HTTP2StreamID) { note(.response(stream, head)) }
  func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID) {
    note(.content(stream, content.indices.map { content[$0] }))
  }
  func receivedEnd(on stream: HTTP2StreamID) { note(.end(stream)) }
  func hasRoom(on stream: HTTP2StreamID) { note(.room(stream)) }
  func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure) {
    note(.closed(stream, closure.cause, closure.code))
  }
  func receivedGoAway(_ goAway: HTTP2GoAway) { note(.goAway(goAway)) }
  func settingsChanged() { note(.settings) }
  func receivedPong(_ payload: UInt64) { note(.pong(payload)) }

  private func note(_ event: Event) {
    events.append(event)
    if case .content(let stream, let bytes) = event { contents[stream, default: []] += bytes }
    reaction(event)
  }
}
