extension Span<UInt8> {
  /// The bytes in `range` as a string. What is not UTF-8 becomes U+FFFD.
  public func string(in range: Range<Int>) -> String {
    unsafe extracting(range).withUnsafeBufferPointer { buffer in
      // Safe: `buffer` is read within this closure only.
      unsafe String(decoding: buffer, as: UTF8.self)
    }
  }
}
