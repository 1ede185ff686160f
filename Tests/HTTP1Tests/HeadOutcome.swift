import HTTP1

/// The outcome of a parser for some bytes.
enum HeadOutcome: Equatable {
  case incomplete
  case complete(length: Int, RequestHead)
  case refused(RequestError)

  /// Parses `bytes`; `arrivals` are the numbers of bytes that have arrived at each call.
  init(_ bytes: [UInt8], arrivals: some Sequence<Int>, limits: HTTP1Limits = .init()) {
    var parser = RequestHeadParser(limits: limits)
    self.init(bytes, arrivals: arrivals, parser: &parser)
  }

  /// Parses `bytes` with `parser`, and stops at the first verdict.
  init(_ bytes: [UInt8], arrivals: some Sequence<Int>, parser: inout RequestHeadParser) {
    self = .incomplete
    for count in arrivals {
      do {
        guard let length = try parser.parse(bytes.span.extracting(first: count)) else { continue }
        self = .complete(length: length, parser.head)
      } catch {
        self = .refused(error)
      }
      return
    }
  }

  /// Parses all of `bytes` in one call.
  init(_ bytes: [UInt8], limits: HTTP1Limits = .init()) {
    self.init(bytes, arrivals: CollectionOfOne(bytes.count), limits: limits)
  }
}
