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
      guard let segment = FormEncoding.decode(part),
        !segment.utf8.contains(where: { $0 < 0x20 || $0 == 0x2F || $0 >= 0x80 })
      else {
        return nil
      }
      segments.append(segment)
    }
    return segments
  }
}

/// What the emulator answers, and how it is to be sent.
public struct SandboxResponse: Sendable, Equatable {
  /// The status code.
  public var status: Int
  /// The header fields, without those that frame the message.
  public var fields: [SandboxField]
  /// The content.
  public var content: [UInt8]
  /// How it goes out.
  public var delivery = Delivery()

  /// How a response goes out: as it stands, unless a fault was asked for.
  public struct Delivery: Sendable, Equatable {
    /// How long nothing happens before it.
    public var delay: Duration = .zero
    /// Bytes of content in each tenth of a second; nil for as fast as it goes.
    public var pace: Int?
    /// Where the content ends.
    public var ending = Ending.whole
    /// Whether the connection is over afterwards: GOAWAY in HTTP/2, `Connection: close` in HTTP/1.1.
    public var closesConnection = false
    /// So many bytes of filling in place of `content`, made as they are sent.
    public var filling: Int?

    /// Whether the response can be given at once and whole.
    var isPlain: Bool { delay == .zero && pace == nil && ending == .whole && filling == nil }
  }

  /// How content ends.
  public enum Ending: Sendable, Equatable {
    /// After its last byte.
    case whole
    /// In its middle, after its whole length was announced.
    case reset
    /// In its middle, without a length: only the missing end of the message tells that it is not whole.
    case truncated
  }

  /// A response.
  public init(_ status: Int, fields: [SandboxField] = [], content: [UInt8] = []) {
    (self.status, self.fields, self.content) = (status, fields, content)
  }

  static func json(_ document: Document, status: Int = 200) -> SandboxResponse {
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

  /// A field line.
  public init(_ name: String, _ value: String) {
    (self.name, self.value) = (name, value)
  }
}

extension [SandboxField] {
  /// The values of all lines of that name, which is in lower case. One that is not ASCII reads as a single replacement
  /// character, which is wrong everywhere: only ASCII compares in linear time as a `String`.
  func values(of lowercaseName: String) -> [String] {
    filter { $0.name.lowercased() == lowercaseName }.map { field in
      field.value.utf8.allSatisfy { $0 < 0x80 } ? field.value : "\u{FFFD}"
    }
  }

  /// The value if there is exactly one line of that name: of a credential that occurs twice, none counts.
  func single(_ lowercaseName: String) -> String? {
    let values = values(of: lowercaseName)
    return values.count == 1 ? values[0] : nil
  }

  /// Replaces the lines of that name.
  mutating func set(_ name: String, _ value: String) {
    let lowercaseName = name.lowercased()
    removeAll { $0.name.lowercased() == lowercaseName }
    append(SandboxField(name, value))
  }
}
