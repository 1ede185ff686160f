import HTTPTypes

/// What an upstream said in a response that the server replaces by one of its own.
///
/// The caller gets it beside the server's own error, and the access log has it, because it is what Apple's support asks
/// for. An object, because nearly every response has none.
public final class ReplacedResponse: Sendable, Equatable {
  /// The status.
  public let status: Int
  /// The `code` of the first error object; nil without one.
  public let code: String?
  /// The `id` of the first error object.
  public let id: String?
  /// The `title` of the first error object.
  public let title: String?
  /// The value of `X-Apple-Jingle-Correlation-Key`.
  public let correlationKey: String?
  /// The value of `X-Apple-Request-UUID`.
  public let requestUUID: String?

  /// The maximum length of each text in bytes.
  public static let longestText = 200

  /// Creates a record. The texts must be printable and at most ``longestText`` bytes long.
  public init(
    status: Int, code: String? = nil, id: String? = nil, title: String? = nil, correlationKey: String? = nil,
    requestUUID: String? = nil
  ) {
    (self.status, self.code, self.id, self.title) = (status, code, id, title)
    (self.correlationKey, self.requestUUID) = (correlationKey, requestUUID)
  }

  /// Returns whether two records are the same.
  public static func == (left: ReplacedResponse, right: ReplacedResponse) -> Bool {
    left.status == right.status && left.code == right.code && left.id == right.id && left.title == right.title
      && left.correlationKey == right.correlationKey && left.requestUUID == right.requestUUID
  }
}

extension Response {
  /// Adds what the upstream said in the response that this one replaces: to the log, and the fields that the upstream's
  /// support asks for to the response.
  public mutating func note(_ replaced: ReplacedResponse) {
    self.replaced = replaced
    if let key = replaced.correlationKey { fields[.appleCorrelationKey] = key }
    if let id = replaced.requestUUID { fields[.appleRequestUUID] = id }
  }
}

extension HTTPField.Name {
  fileprivate static let appleCorrelationKey = HTTPField.Name.literal("X-Apple-Jingle-Correlation-Key")
  fileprivate static let appleRequestUUID = HTTPField.Name.literal("X-Apple-Request-UUID")
}
