/// Why content that came gzipped could not be decoded.
public enum ContentCodingError: Error, Sendable, Equatable {
  /// It is no gzip, is damaged, or does not end.
  case malformed
  /// It decodes to more than `limit` bytes.
  case tooLarge(limit: Int)
}
