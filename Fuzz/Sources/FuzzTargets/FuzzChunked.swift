import HTTP1

/// Decodes the input at once, byte by byte and in two parts. Traps unless all results agree.
func fuzzChunked(_ bytes: [UInt8]) {
  let whole = Outcome(bytes, arrivals: CollectionOfOne(bytes.count))
  precondition(Outcome(bytes, arrivals: 0...bytes.count) == whole, "byte by byte")
  precondition(Outcome(bytes, arrivals: [cut(bytes), bytes.count]) == whole, "in two parts")
  if case .complete(let length) = whole.verdict {
    let body = Array(bytes.prefix(length))
    precondition(body.suffix(4).elementsEqual("\r\n\r\n".utf8))
    precondition(Outcome(body, arrivals: CollectionOfOne(length)) == whole, "looked beyond the body")
    let shorter = Outcome(Array(body.dropLast()), arrivals: CollectionOfOne(length - 1))
    precondition(shorter.verdict == .incomplete && shorter.data == whole.data, "ended too soon")
  }
}

/// The result of decoding some bytes.
private struct Outcome: Equatable {
  enum Verdict: Equatable {
    case incomplete, complete(Int), refused(RequestError)
  }

  var data: [UInt8] = []
  var verdict = Verdict.incomplete

  init(_ bytes: [UInt8], arrivals: some Sequence<Int>) {
    var decoder = ContentDecoder(.chunked)
    var start = 0
    for end in arrivals {
      var isDry = false
      while !isDry, verdict == .incomplete {
        do {
          let (consumed, event) = try decoder.decode(bytes.span.extracting(start..<end))
          precondition(consumed >= 0 && start + consumed <= end)
          switch event {
          case .data(let range):
            precondition(!range.isEmpty && range.upperBound == consumed)
            data += bytes[start + range.lowerBound..<start + range.upperBound]
          case .end:
            verdict = .complete(start + consumed)
          case .needMore:
            precondition(start + consumed == end)
            isDry = true
          }
          start += consumed
        } catch {
          verdict = .refused(error)
        }
      }
    }
  }
}
