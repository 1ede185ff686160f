/// A request as the emulator sees it: no socket, no parser, nothing that outlives it.
public struct SandboxRequest: Sendable {
  /// The method, in upper case as it is registered.
  public var method: String
  /// The path as received, percent-encoded, without the query.
  public var path: String
  /// The query as received, without its `?`; nil if the request has no query.
  public var query: String?
  /// Host and optional port that the request names, for absolute URLs in responses; empty if it names none.
  public var authority: String
  /// The field lines in the order received, `Host` and pseudo-header fields left out.
  public var fields: [SandboxField]
  /// The content, whole.
  public var content: [UInt8]
  /// The protocol, as in `HTTP/2`; for the log of requests.
  public var protocolName: String

  /// A request.
  public init(
    _ method: String = "GET", _ path: String, query: String? = nil, authority: String = "",
    fields: [SandboxField] = [], content: [UInt8] = [], protocolName: String = "HTTP/1.1"
  ) {
    (self.method, self.path, self.query, self.authority) = (method, path, query, authority)
    (self.fields, self.content, self.protocolName) = (fields, content, protocolName)
  }

  /// Path and query as the request line had them.
  var target: String { query.map { "\(path)?\($0)" } ?? path }

  /// The decoded segments of the path. Nil if an escape is malformed, or what it stands for is a slash, a control
  /// character or beyond ASCII: two readers would take it for two things, and none of Apple's paths has such.
  var segments: [String]? {
    guard path.utf8.first == UInt8(ascii: "/"), path.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
    var segments: [String] = []
    for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
      guard let segment = PercentCoding.decode(part),
        !segment.utf8.contains(where: { $0 < 0x20 || $0 == 0x2F || $0 >= 0x80 })
      else {
        return nil
      }
      segments.append(segment)
    }
    return segments
  }
}
