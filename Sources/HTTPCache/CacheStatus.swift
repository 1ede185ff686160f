import Bytes
public import HTTPTypes

/// The member that this cache adds to `Cache-Status` (RFC 9211), a structured field (RFC 8941).
public struct CacheStatus: Sendable, Equatable {
  /// How the request was handled.
  public enum Handling: Sendable, Equatable {
    /// By a stored response, without going upstream.
    case hit
    /// By going upstream.
    case forwarded(ForwardReason)
  }

  /// How the request was handled.
  public var handling: Handling
  /// The status that came from upstream, where the caller gets another.
  public var forwardStatus: Int?
  /// How long the response stays fresh, in seconds; negative if it is stale.
  public var timeToLive: Int?
  /// Whether the response was stored.
  public var isStored = false
  /// Whether several requests went upstream as one.
  public var isCollapsed = false
  /// More, for people.
  public var detail: String?

  /// A request that was handled so.
  public init(_ handling: Handling, timeToLive: Int? = nil) {
    self.handling = handling
    self.timeToLive = timeToLive
  }

  /// The field's name.
  public static let fieldName = HTTPField.Name("Cache-Status")

  var isHit: Bool { handling == .hit }

  /// The member, as the field has it.
  public var fieldValue: String {
    var value: [UInt8] = []
    value.reserveCapacity(64)
    value.append("musickit-token-server")
    switch handling {
    case .hit: value.append("; hit")
    case .forwarded(let reason):
      value.append("; fwd=")
      value.append(contentsOf: reason.rawValue.utf8)
    }
    if let forwardStatus { value.append("; fwd-status=", Self.integer(forwardStatus)) }
    if let timeToLive { value.append("; ttl=", Self.integer(timeToLive)) }
    if isStored { value.append("; stored") }
    if isCollapsed { value.append("; collapsed") }
    if let detail {
      value.append("; detail=")
      value.append(contentsOf: Self.string(detail).utf8)
    }
    return String(decoding: value, as: UTF8.self)
  }

  /// Integers of structured fields have up to 15 digits (RFC 8941 §3.3.1).
  private static func integer(_ number: Int) -> Int {
    min(max(number, -999_999_999_999_999), 999_999_999_999_999)
  }

  /// Strings of structured fields are of printable ASCII (RFC 8941 §3.3.3). What is not becomes `?`.
  private static func string(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      if scalar == "\"" || scalar == "\\" { result.unicodeScalars.append("\\") }
      result.unicodeScalars.append((0x20...0x7e).contains(scalar.value) ? scalar : "?")
    }
    return result + "\""
  }
}

extension [UInt8] {
  fileprivate mutating func append(_ parameter: StaticString, _ number: Int) {
    append(parameter)
    append(decimal: number)
  }
}
