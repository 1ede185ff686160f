import HTTP1
import HTTPTypes

/// The outcome of a response parser and a content decoder for some bytes.
struct ResponseOutcome: Equatable {
  enum Verdict: Equatable {
    case incomplete
    case refused(ResponseError)
    /// The end of the content, after `length` bytes.
    case complete(length: Int)
  }

  var head: ResponseHead?
  var headLength = 0
  var content: [UInt8] = []
  var verdict = Verdict.incomplete
  var endsWithConnection = false

  /// Parses `bytes`; `arrivals` are the numbers of bytes that have arrived at each call.
  init(
    _ bytes: [UInt8], arrivals: some Sequence<Int>, answering method: HTTPRequest.Method = .get,
    limits: HTTP1Limits = .init()
  ) {
    var parser = ResponseHeadParser(answering: method, limits: limits)
    var decoder: ContentDecoder?
    var start = 0
    do throws(ResponseError) {
      for count in arrivals where verdict == .incomplete {
        if decoder == nil {
          guard let length = try parser.parse(bytes.span.extracting(first: count)) else { continue }
          decoder = ContentDecoder(parser.head.framing, limits: limits)
          (head, headLength, start) = (parser.head, length, length)
        }
        var event = ContentDecoder.Event.data(0..<0)
        while event != .needMore, verdict == .incomplete, var body = decoder {
          let consumed: Int
          do { (consumed, event) = try body.decode(bytes.span.extracting(start..<count)) } catch {
            throw ResponseError.malformed(error)
          }
          if case .data(let range) = event { content += bytes[start + range.lowerBound..<start + range.upperBound] }
          start += consumed
          if event == .end { verdict = .complete(length: start) }
          decoder = body
        }
      }
    } catch {
      verdict = .refused(error)
    }
    endsWithConnection = decoder?.endsWithConnection ?? false
  }

  init(_ bytes: [UInt8], answering method: HTTPRequest.Method = .get) {
    self.init(bytes, arrivals: CollectionOfOne(bytes.count), answering: method)
  }
}
