import HTTP1

/// What a chunked decoder makes of some bytes.
struct ChunkedOutcome: Equatable {
  enum Verdict: Equatable {
    case incomplete, refused(RequestError)
    /// The end of the body, behind that many bytes.
    case complete(length: Int)
  }

  var data: [UInt8] = []
  var verdict = Verdict.incomplete

  /// Decodes `bytes`, of which `arrivals` are the counts that are there at each call, as a connection does.
  init(_ bytes: [UInt8], arrivals: some Sequence<Int>, limits: HTTP1Limits = .init()) {
    var decoder = ChunkedDecoder(limits: limits)
    var start = 0
    for count in arrivals {
      guard case .incomplete = decode(bytes, &start, to: count, with: &decoder) else { return }
    }
  }

  init(_ bytes: [UInt8]) {
    self.init(bytes, arrivals: CollectionOfOne(bytes.count))
  }

  private mutating func decode(
    _ bytes: [UInt8], _ start: inout Int, to end: Int, with decoder: inout ChunkedDecoder
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
