/// Where in a response's content its reader is, whichever way it is framed (RFC 9112 §6.3). It keeps no bytes.
public struct ResponseContentDecoder: Sendable {
  private enum State {
    case fixed(remaining: Int)
    case chunked(ChunkedDecoder)
    case untilClose
  }

  private var state: State

  /// Makes a decoder that is ready for the first byte of the content.
  public init(_ framing: ResponseFraming, limits: HTTP1Limits = .init()) {
    state =
      switch framing {
      case .none: .fixed(remaining: 0)
      case .fixed(let length): .fixed(remaining: length)
      case .chunked: .chunked(ChunkedDecoder(limits: limits))
      case .untilClose: .untilClose
      }
  }

  /// Takes bytes from the front of `bytes`, as ``ChunkedDecoder/decode(_:)`` does.
  public mutating func decode(
    _ bytes: Span<UInt8>
  ) throws(ResponseError) -> (consumed: Int, event: ChunkedDecoder.Event) {
    switch state {
    case .fixed(remaining: 0):
      return (0, .end)
    case .fixed(let remaining):
      let count = min(remaining, bytes.count)
      state = .fixed(remaining: remaining - count)
      return (count, count == 0 ? .needMore : .data(0..<count))
    case .chunked(var decoder):
      defer { state = .chunked(decoder) }
      do { return try decoder.decode(bytes) } catch { throw .malformed(error) }
    case .untilClose:
      return (bytes.count, bytes.isEmpty ? .needMore : .data(0..<bytes.count))
    }
  }

  /// Whether the end of the connection is the end of the content. Otherwise content that has not ended is cut.
  public var endsWithConnection: Bool {
    if case .untilClose = state { true } else { false }
  }
}
