import Bytes
public import HTTPTypes

/// A request to the emulator: a value without a socket or a parser.
public struct SandboxRequest: Sendable {
  /// The method in upper case, as registered.
  public var method: String
  /// The path as received, percent-encoded, without the query.
  public var path: String
  /// The query as received, without its `?`; nil if the request has no query.
  public var query: String?
  /// The host and optional port of the request, for absolute URLs in responses; empty if it has none.
  public var authority: String
  /// The field lines in the order received, without `Host` and pseudo-header fields.
  public var fields: HTTPFields
  /// The whole content.
  public var content: [UInt8]
  /// The protocol, as in `HTTP/2`, for the log of requests.
  public var protocolName: String

  /// Creates a request.
  public init(
    _ method: String = "GET", _ path: String, query: String? = nil, authority: String = "",
    fields: HTTPFields = [:], content: [UInt8] = [], protocolName: String = "HTTP/1.1"
  ) {
    (self.method, self.path, self.query, self.authority) = (method, path, query, authority)
    (self.fields, self.content, self.protocolName) = (fields, content, protocolName)
  }

  /// The path and the query as in the request line.
  var target: String { query.map { "\(path)?\($0)" } ?? path }

  /// The decoded segments of the path; nil if an escape is malformed, or decodes to a slash, a control character or a
  /// byte beyond ASCII. Parsers would interpret these differently, and none of Apple's paths has them.
  var segments: [String]? {
    guard path.utf8.first == UInt8(ascii: "/"), path.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
    var segments: [String] = []
    for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
      guard let segment = PercentEncoding.text(part),
        !segment.utf8.contains(where: { $0 < 0x20 || $0 == 0x2F || $0 >= 0x80 })
      else { return nil }
      segments.append(segment)
    }
    // Apple accepts a slash at the end, which three public programs send.
    if segments.count > 1, segments.last == "" { segments.removeLast() }
    return segments
  }
}

extension HTTPFields {
  /// Returns the values of all lines with that name. A value beyond ASCII becomes a single replacement character, which
  /// is always invalid, because only ASCII compares in linear time as a `String`.
  func plain(_ name: HTTPField.Name) -> [String] {
    self[values: name].map { value in value.utf8.allSatisfy { $0 < 0x80 } ? value : "\u{FFFD}" }
  }

  /// Returns the value if there is exactly one line of that name. So a repeated credential has no effect.
  func single(_ name: HTTPField.Name) -> String? {
    let values = plain(name)
    return values.count == 1 ? values[0] : nil
  }
}
