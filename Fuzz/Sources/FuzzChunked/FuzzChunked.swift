import HTTP1

/// Entry point of libFuzzer: decodes the input at once, byte by byte and in two parts. Traps unless all results agree.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzChunked(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  let whole = Outcome(bytes, arrivals: CollectionOfOne(count))
  precondition(Outcome(bytes, arrivals: 0...count) == whole, "byte by byte")
  let cut = bytes.reduce(0) { $0 &* 31 &+ Int($1) } & .max
  precondition(Outcome(bytes, arrivals: [cut % (count + 1), count]) == whole, "in two parts")
  if case .complete(let length) = whole.verdict {
    let body = Array(bytes.prefix(length))
    precondition(body.suffix(4).elementsEqual("\r\n\r\n".utf8))
    precondition(Outcome(body, arrivals: CollectionOfOne(length)) == whole, "looked beyond the body")
    let shorter = Outcome(Array(body.dropLast()), arrivals: CollectionOfOne(length - 1))
    precondition(shorter.verdict == .incomplete && shorter.data == whole.data, "ended too soon")
  }
  return 0
}

/// The result of decoding some bytes.
struct Outcome: Equatable {
  enum Verdict: Equatable {
    case incomplete, complete(Int), refused(RequestError)
  }

  var data: [UInt8] = []
  var verdict = Verdict.incomplete

  init(_ bytes: [UInt8], arrivals: some Sequence<Int>) {
    var decoder = ChunkedDecoder()
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
