import HTTP1

/// Parses the input at once, byte by byte and in two parts. Traps unless all results agree
/// and every accepted head is valid.
func fuzzRequestHead(_ bytes: [UInt8]) {
  let whole = Outcome(bytes, arrivals: CollectionOfOne(bytes.count))
  precondition(Outcome(bytes, arrivals: 0...bytes.count) == whole, "byte by byte")
  precondition(Outcome(bytes, arrivals: [cut(bytes), bytes.count]) == whole, "in two parts")
  if case .complete(let length, let head) = whole {
    precondition(length <= bytes.count)
    precondition(Outcome(Array(bytes.prefix(length)), arrivals: CollectionOfOne(length)) == whole, "looked too far")
    precondition(Outcome(bytes, arrivals: CollectionOfOne(length - 1)) == .incomplete, "ended too soon")
    checkLines(bytes[..<length])
    check(head, in: bytes, length: length)
  }
}

/// The result of parsing some bytes.
private enum Outcome: Equatable {
  case incomplete
  case complete(Int, RequestHead)
  case refused(RequestError)

  init(_ bytes: [UInt8], arrivals: some Sequence<Int>) {
    var parser = RequestHeadParser()
    self = .incomplete
    for count in arrivals {
      do {
        guard let length = try parser.parse(bytes.span.extracting(first: count)) else { continue }
        self = .complete(length, parser.head)
      } catch {
        self = .refused(error)
      }
      return
    }
  }
}

/// Checks that the only control characters are HTAB, and the CR and LF at the end of lines.
private func checkLines(_ head: ArraySlice<UInt8>) {
  precondition(head.suffix(4).elementsEqual("\r\n\r\n".utf8))
  var previous: UInt8 = 0
  for byte in head {
    precondition((previous == 0x0d) == (byte == 0x0a), "bare CR or LF")
    precondition(byte == 0x0d || byte == 0x0a || byte == 0x09 || (byte >= 0x20 && byte != 0x7f), "control character")
    previous = byte
  }
}

/// Two stands for more.
private func count(_ value: FieldOccurrence<Range<Int>>) -> Int {
  switch value {
  case .absent: 0
  case .single: 1
  case .repeated: 2
  }
}

/// Checks that ranges are within the head and in order, names and values are valid, and the framing matches the fields.
private func check(_ head: RequestHead, in bytes: [UInt8], length: Int) {
  let ranges = [head.methodRange, head.target, head.path, head.authority] + [head.query].compactMap { $0 }
  for range in ranges { precondition(range.lowerBound >= 0 && range.upperBound <= length, "range") }
  precondition(!head.methodRange.isEmpty && !head.target.isEmpty)
  precondition(head.target.lowerBound <= head.path.lowerBound && head.path.upperBound <= head.target.upperBound)
  precondition(head.fields.count <= 100)
  var end = head.target.upperBound
  for line in head.fields {
    precondition(line.name.lowerBound >= end && !line.name.isEmpty)
    precondition(line.name.upperBound < line.value.lowerBound && line.value.upperBound <= length)
    precondition(bytes[line.name.upperBound] == UInt8(ascii: ":"))
    for edge in [bytes[line.value].first, bytes[line.value].last] { precondition(edge != 0x20 && edge != 0x09) }
    end = line.value.upperBound
  }
  let span = bytes.span
  let lengths = count(head.fields.value(of: "content-length", in: span))
  let codings = count(head.fields.value(of: "transfer-encoding", in: span))
  let hosts = count(head.fields.value(of: "host", in: span))
  precondition(lengths + codings <= 1, "framing fields exclude each other")
  precondition(hosts == 1 || (hosts == 0 && head.version == .http10))
  switch head.framing {
  case .none: precondition(lengths + codings == 0)
  case .fixed(let value): precondition(lengths == 1 && value >= 0)
  case .chunked: precondition(codings == 1 && head.version == .http11)
  case .untilClose: preconditionFailure("a request does not end with its connection")
  }
}
