public import HTTP1

/// An answer in one content coding, ready to be sent.
public struct Representation: Sendable {
  /// The content.
  public let body: [UInt8]
  /// All fields that are the same each time; ``Selection/fields(_:)`` has the others.
  public let fields: FieldSection
  /// Those of a 304 (RFC 9110 §15.4.5).
  public let notModified: FieldSection
}
