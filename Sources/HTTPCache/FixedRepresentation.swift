/// A representation that never changes while the program runs, such as a file in the program: compressed once, with an
/// entity tag for caches.
public struct FixedRepresentation: Sendable {
  /// What a request gets.
  public enum SelectedRepresentation: Sendable, Equatable {
    /// The caller has the representation already (RFC 9110 §15.4.5).
    case notModified
    case content([UInt8], ContentCoding)
  }

  private let identity: [UInt8]
  /// The compressed content; nil if it would not be shorter.
  private let gzip: [UInt8]?
  private let tag: EntityTag

  /// Compresses the content.
  public init(_ content: [UInt8]) {
    identity = content
    gzip = Gzip.deflate(content, level: 9)
    tag = EntityTag(ofContent: content).weakened
  }

  /// The value of `ETag`. It is weak, because both codings share it (RFC 9110 §8.8.3.3).
  public var entityTag: String { "W/\"\(String(decoding: tag.opaque, as: UTF8.self))\"" }

  /// Returns what a caller gets that accepts `coding` and has these preconditions.
  public func selection(for coding: ContentCoding, _ preconditions: Preconditions) -> SelectedRepresentation {
    // A representation without a date ignores `If-Modified-Since`.
    if preconditions.isNotModified(byTag: tag.opaque, modified: .max, now: 0) { return .notModified }
    if coding == .gzip, let gzip { return .content(gzip, .gzip) }
    return .content(identity, .identity)
  }
}
