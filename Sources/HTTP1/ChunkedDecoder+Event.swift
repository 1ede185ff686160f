extension ChunkedDecoder {
  /// What ``decode(_:)`` found.
  public enum Event: Sendable, Equatable {
    /// Nothing more in these bytes.
    case needMore
    /// Chunk data, as a range of the bytes that were passed in. Never empty.
    case data(Range<Int>)
    /// The end of the body, trailer section included.
    case end
  }
}
