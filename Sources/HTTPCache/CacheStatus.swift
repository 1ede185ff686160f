import Bytes

/// The member of this cache in `Cache-Status` (RFC 9211), a structured field (RFC 8941).
public struct CacheStatus: Sendable, Equatable {
  /// The way in which the request was handled.
  public enum Handling: Sendable, Equatable {
    /// The cache served a stored response, without an upstream request.
    case hit
    /// The proxy sent an upstream request.
    case forwarded(ForwardReason)
    /// Neither, because the caller forbids an upstream request.
    case unforwarded
  }

  /// The way in which the request was handled.
  public var handling: Handling
  /// The upstream status, if the caller receives a different status.
  public var forwardStatus: Int?
  /// The remaining freshness lifetime in seconds. Negative if the response is stale.
  public var timeToLive: Int?
  /// Whether the response was stored.
  public var isStored = false
  /// Whether one upstream request served several requests.
  public var isCollapsed = false
  /// More information for people.
  public var detail: String?

  /// Creates the member for a request.
  public init(_ handling: Handling, timeToLive: Int? = nil) {
    self.handling = handling
    self.timeToLive = timeToLive
  }

  /// The member in the syntax of the field.
  public var fieldValue: String {
    var value: [UInt8] = []
    value.append(addingCapacity: mostBytes) { (output: inout OutputSpan<UInt8>) in append(to: &output) }
    return String(decoding: value, as: UTF8.self)
  }

  /// The most bytes of the member: all parameters with the longest numbers (117), and each character of `detail` escaped.
  var mostBytes: Int { 128 + 2 * (detail?.utf8.count ?? 0) }

  /// Appends the member in the syntax of the field. Traps without room for ``mostBytes``.
  func append(to value: inout OutputSpan<UInt8>) {
    value.append("musickit-token-server")
    switch handling {
    case .hit: value.append("; hit")
    case .forwarded(let reason):
      value.append("; fwd=")
      value.append(utf8: reason.rawValue)
    case .unforwarded: value.append("; detail=\"only-if-cached\"")
    }
    if let forwardStatus { value.append("; fwd-status=", Self.integer(forwardStatus)) }
    if let timeToLive { value.append("; ttl=", Self.integer(timeToLive)) }
    if isStored { value.append("; stored") }
    if isCollapsed { value.append("; collapsed") }
    if let detail {
      value.append("; detail=\"")
      Self.append(detail, to: &value)
      value.append("\"")
    }
  }

  /// Limits an integer to the 15 digits of a structured field (RFC 8941 §3.3.1).
  private static func integer(_ number: Int) -> Int {
    min(max(number, -999_999_999_999_999), 999_999_999_999_999)
  }

  /// Appends the content of a String of a structured field. Characters other than printable ASCII (RFC 8941 §3.3.3)
  /// become `?`.
  private static func append(_ text: String, to value: inout OutputSpan<UInt8>) {
    for scalar in text.unicodeScalars {
      if scalar == "\"" || scalar == "\\" { value.append(UInt8(ascii: "\\")) }
      value.append((0x20...0x7e).contains(scalar.value) ? UInt8(ascii: scalar) : UInt8(ascii: "?"))
    }
  }
}

extension OutputSpan<UInt8> {
  fileprivate mutating func append(_ parameter: StaticString, _ number: Int) {
    append(parameter)
    append(decimal: number)
  }
}

extension [UInt8] {
  mutating func append(_ parameter: StaticString, _ number: Int) {
    append(parameter)
    append(decimal: number)
  }
}
