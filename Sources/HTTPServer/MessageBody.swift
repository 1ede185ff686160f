import HTTP1

/// Where in a request body its reader is, whichever way it is framed.
enum MessageBody {
  case fixed(remaining: Int)
  case chunked(ChunkedDecoder)

  init(_ framing: MessageFraming, limits: HTTP1Limits) {
    switch framing {
    case .none: self = .fixed(remaining: 0)
    case .fixed(let length): self = .fixed(remaining: length)
    case .chunked: self = .chunked(ChunkedDecoder(limits: limits))
    }
  }

  /// Takes bytes from the front of `bytes`: how many, and what they are.
  mutating func next(_ bytes: Span<UInt8>) throws(CloseReason) -> (consumed: Int, event: ChunkedDecoder.Event) {
    switch self {
    case .fixed(remaining: 0):
      return (0, .end)
    case .fixed(let remaining):
      let count = min(remaining, bytes.count)
      self = .fixed(remaining: remaining - count)
      return (count, count == 0 ? .needMore : .data(0..<count))
    case .chunked(var decoder):
      defer { self = .chunked(decoder) }
      do { return try decoder.decode(bytes) } catch { throw .refused(Refusal(error)) }
    }
  }
}
