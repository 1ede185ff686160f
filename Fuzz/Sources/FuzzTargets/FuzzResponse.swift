import HTTP1
import HTTPTypes

/// Parses the input as the response to three kinds of requests, at once, byte by byte and in
/// two parts. Traps unless all results agree and every accepted response is valid.
func fuzzResponse(_ bytes: [UInt8]) {
  for method in [HTTPRequest.Method.get, .head, .connect] {
    let whole = Outcome(bytes, arrivals: CollectionOfOne(bytes.count), answering: method)
    precondition(Outcome(bytes, arrivals: 0...bytes.count, answering: method) == whole, "byte by byte")
    let arrivals = [cut(bytes), bytes.count]
    precondition(Outcome(bytes, arrivals: arrivals, answering: method) == whole, "in two parts")
    if let head = whole.head {
      check(head, whole)
      let prefix = Array(bytes.prefix(whole.headLength))
      let again = Outcome(prefix, arrivals: CollectionOfOne(prefix.count), answering: method)
      precondition(again.head == head, "looked beyond the head")
    }
  }
}

/// The result of parsing and decoding some bytes.
private struct Outcome: Equatable {
  var head: ResponseHead?
  var headLength = 0
  var content: [UInt8] = []
  var isComplete = false
  var refusal: ResponseError?

  init(_ bytes: [UInt8], arrivals: some Sequence<Int>, answering method: HTTPRequest.Method) {
    var parser = ResponseHeadParser(answering: method)
    var decoder: ContentDecoder?
    var start = 0
    do throws(ResponseError) {
      for count in arrivals where !isComplete {
        if decoder == nil {
          guard let length = try parser.parse(bytes.span.extracting(first: count)) else { continue }
          decoder = ContentDecoder(parser.head.framing)
          (head, headLength, start) = (parser.head, length, length)
        }
        var event = ContentDecoder.Event.data(0..<0)
        while event != .needMore, event != .end, var body = decoder {
          let consumed: Int
          do { (consumed, event) = try body.decode(bytes.span.extracting(start..<count)) } catch {
            throw ResponseError.malformed(error)
          }
          precondition(consumed >= 0 && start + consumed <= count)
          if case .data(let range) = event {
            precondition(!range.isEmpty && range.upperBound == consumed)
            content += bytes[start + range.lowerBound..<start + range.upperBound]
          }
          start += consumed
          decoder = body
        }
        isComplete = event == .end
      }
    } catch {
      refusal = error
    }
  }
}

/// Checks that there are no line ends or connection-specific fields, and that the content has the stated length.
private func check(_ head: ResponseHead, _ outcome: Outcome) {
  precondition((200...599).contains(head.status))
  precondition(head.fields.count <= 100)
  let hidden = ["connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade"]
  for line in head.fields.lines {
    let name = String(decoding: head.fields.bytes[line.name], as: UTF8.self)
    precondition(!name.isEmpty && !hidden.contains(name.lowercased()))
    precondition(head.fields.bytes[line.value].allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7f) })
  }
  if case .fixed(let length) = head.framing {
    precondition(length == head.contentLength)
    precondition(outcome.content.count <= length && outcome.isComplete == (outcome.content.count == length))
  }
  precondition(head.framing != .untilClose || (!head.keepAlive && !outcome.isComplete))
}
