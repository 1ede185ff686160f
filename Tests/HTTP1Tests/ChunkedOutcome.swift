import HTTP1

/// The outcome of a chunked decoder for some bytes.
struct ChunkedOutcome: Equatable {
  enum Verdict: Equatable {
    case incomplete, refused(RequestError)
    /// The end of the body, after `length` bytes.
    case complete(length: Int)
  }

  var data: [UInt8] = []
  var verdict = Verdict.incomplete

  /// Decodes `bytes` as a connection does; `arrivals` are the numbers of bytes that have arrived at each call.
  init(_ bytes: [UInt8], arrivals: some Sequence<Int>, limits: HTTP1Limits = .init()) {
    var decoder = ContentDecoder(.chunked, limits: limits)
    var start = 0
    for count in arrivals {
      guard case .incomplete = decode(bytes, &start, to: count, with: &decoder) else { return }
    }
  }

  init(_ bytes: [UInt8]) {
    self.init(bytes, arrivals: CollectionOfOne(bytes.count))
  }

  private mutating func decode(
    _ bytes: [UInt8], _ start: inout Int, to end: Int, with decoder: inout ContentDecoder
  ) -> Verdict {
    while verdict == .incomplete {
      do {
        let (consumed, event) = try decoder.decode(bytes.span.extracting(start..<end))
        switch event {
        case .data(let range): data += bytes[start..<end].dropFirst(range.lowerBound).prefix(range.count)
        case .end: verdict = .complete(length: start + consumed)
        case .needMore: break
        }
        start += consumed
        if event == .needMore { break }
      } catch {
        verdict = .refused(error)
      }
    }
    return verdict
  }
}
