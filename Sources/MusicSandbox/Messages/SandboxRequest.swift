import JSON
import MusicCatalog

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
  public var fields: [SandboxField]
  /// The whole content.
  public var content: [UInt8]
  /// The protocol, as in `HTTP/2`, for the log of requests.
  public var protocolName: String

  /// Creates a request.
  public init(
    _ method: String = "GET", _ path: String, query: String? = nil, authority: String = "",
    fields: [SandboxField] = [], content: [UInt8] = [], protocolName: String = "HTTP/1.1"
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
      guard let segment = FormEncoding.decode(part),
        !segment.utf8.contains(where: { $0 < 0x20 || $0 == 0x2F || $0 >= 0x80 })
      else {
        return nil
      }
      segments.append(segment)
    }
    // Apple accepts a slash at the end, which three public programs send.
    if segments.count > 1, segments.last == "" { segments.removeLast() }
    return segments
  }
}

/// A response of the emulator, and the way to send it.
public struct SandboxResponse: Sendable, Equatable {
  /// The status code.
  public var status: Int
  /// The field lines, without those of the message framing.
  public var fields: [SandboxField]
  /// The content.
  public var content: [UInt8]
  /// The way to send the response.
  public var delivery = Delivery()

  /// The way to send a response: at once and whole, unless a fault changes it.
  public struct Delivery: Sendable, Equatable {
    /// The delay before the response.
    public var delay: Duration = .zero
    /// The number of bytes of content in each tenth of a second; nil for full speed.
    public var pace: Int?
    /// The end of the content.
    public var ending = Ending.whole
    /// Whether the connection ends after the response: GOAWAY in HTTP/2, `Connection: close` in HTTP/1.1.
    public var closesConnection = false
    /// The number of filling bytes instead of `content`, generated during the transfer; nil for none.
    public var filling: Int?

    /// Whether the response can be sent at once and whole.
    var isPlain: Bool { delay == .zero && pace == nil && ending == .whole && filling == nil }
  }

  /// The way in which content ends.
  public enum Ending: Sendable, Equatable {
    /// The content is complete.
    case whole
    /// The content breaks off in the middle, after its full length was announced.
    case reset
    /// The content breaks off in the middle, without a length: only the missing end of the message shows it.
    case truncated
  }

  /// Creates a response.
  public init(_ status: Int, fields: [SandboxField] = [], content: [UInt8] = []) {
    (self.status, self.fields, self.content) = (status, fields, content)
  }

  static func json(_ document: JSONValue, status: Int = 200) -> SandboxResponse {
    SandboxResponse(
      status, fields: [SandboxField("Content-Type", "application/json;charset=utf-8")], content: document.bytes)
  }
}

/// A field line of a message: its name in any case, and its value.
public struct SandboxField: Sendable, Equatable {
  /// The name; compared without regard to the case of ASCII letters.
  public var name: String
  /// The value.
  public var value: String

  /// Creates a field line.
  public init(_ name: String, _ value: String) {
    (self.name, self.value) = (name, value)
  }
}

extension [SandboxField] {
  /// Returns the values of all lines with that name, which is in lower case. A value beyond ASCII becomes a single
  /// replacement character, which is always invalid, because only ASCII compares in linear time as a `String`.
  func values(of lowercaseName: String) -> [String] {
    filter { $0.name.lowercased() == lowercaseName }.map { field in
      field.value.utf8.allSatisfy { $0 < 0x80 } ? field.value : "\u{FFFD}"
    }
  }

  /// Returns the value if there is exactly one line of that name. So a repeated credential has no effect.
  func single(_ lowercaseName: String) -> String? {
    let values = values(of: lowercaseName)
    return values.count == 1 ? values[0] : nil
  }

  /// Replaces all lines of that name.
  mutating func set(_ name: String, _ value: String) {
    let lowercaseName = name.lowercased()
    removeAll { $0.name.lowercased() == lowercaseName }
    append(SandboxField(name, value))
  }
}

extension SandboxResponse {
  /// Converts a response of the catalog.
  init(_ response: APIResponse) {
    self = response.document.map { .json($0, status: response.status) } ?? SandboxResponse(response.status)
  }
}

extension AppleError {
  /// Returns the response.
  ///
  /// - Parameter id: The identifier of this occurrence.
  func respond(id: String) -> SandboxResponse {
    var response = SandboxResponse.json(document(id: id), status: status)
    if let allow { response.fields.append(SandboxField("Allow", allow)) }
    return response
  }
}
