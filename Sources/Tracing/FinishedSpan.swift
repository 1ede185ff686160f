/// A finished operation of a trace, as OpenTelemetry describes it.
///
/// It has no token, credential, query, path or address: its texts are literals of the program, or come from the
/// settings.
public struct FinishedSpan: Sendable {
  /// The role of the server in the operation. The raw value is the number in OTLP.
  public enum Kind: Int, Sendable {
    /// The server responds to a request.
    case server = 2
    /// The server sends a request.
    case client = 3
  }

  /// The value of an attribute.
  public enum Value: Sendable {
    /// A literal of the program.
    case word(StaticString)
    /// A text from the settings.
    case text(String)
    /// A number.
    case number(Int)
  }

  /// A named property of a span, by the semantic conventions of OpenTelemetry.
  public struct Attribute: Sendable {
    let key: StaticString
    let value: Value

    /// Creates an attribute.
    public init(_ key: StaticString, _ value: Value) {
      (self.key, self.value) = (key, value)
    }
  }

  /// The span itself.
  public let context: SpanContext
  /// The span that caused this one, or nil if this one begins the trace.
  public let parent: SpanID?
  /// Whether another service made the parent.
  public let hasRemoteParent: Bool
  /// The role of the server.
  public let kind: Kind
  /// The method of the request, the first word of the span's name.
  public let method: StaticString
  /// The template of the path, the second word of the name; nil if no route matched.
  public let route: StaticString?
  /// The beginning, in nanoseconds since 1970.
  public let start: UInt64
  /// The end, in nanoseconds since 1970.
  public let end: UInt64
  /// Whether the operation failed by a defect, not by a wrong request.
  public let hasFailed: Bool
  /// The properties.
  public let attributes: [Attribute]

  /// Creates the span of the server's work for a request.
  ///
  /// - Parameters:
  ///   - end: The end, in nanoseconds since 1970.
  ///   - duration: The time of the operation.
  public init(
    serving trace: RequestTrace, method: StaticString, route: StaticString?, end: UInt64, duration: Duration,
    hasFailed: Bool, _ attributes: [Attribute]
  ) {
    var context = trace.context()
    context.isSampled = true
    self.init(
      context, parent: trace.parent?.spanID, hasRemoteParent: trace.parent != nil, .server, method, route, end,
      duration, hasFailed, attributes)
  }

  /// Creates the span of a request that the server sends because of the span `parent`.
  public init(
    sending context: SpanContext, parent: SpanID, method: StaticString, route: StaticString?, end: UInt64,
    duration: Duration, hasFailed: Bool, _ attributes: [Attribute]
  ) {
    self.init(
      context, parent: parent, hasRemoteParent: false, .client, method, route, end, duration, hasFailed, attributes)
  }

  private init(
    _ context: SpanContext, parent: SpanID?, hasRemoteParent: Bool, _ kind: Kind, _ method: StaticString,
    _ route: StaticString?, _ end: UInt64, _ duration: Duration, _ hasFailed: Bool, _ attributes: [Attribute]
  ) {
    (self.context, self.parent, self.hasRemoteParent) = (context, parent, hasRemoteParent)
    (self.kind, self.method, self.route) = (kind, method, route)
    self.end = end
    let (seconds, attoseconds) = duration.components
    let length =
      UInt64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000).partialValue
      &+ UInt64(clamping: attoseconds / 1_000_000_000)
    start = length < end ? end - length : end
    self.hasFailed = hasFailed
    self.attributes = attributes
  }

  /// An upper bound of the memory that the span takes, in bytes.
  public var heldBytes: Int {
    var bytes = MemoryLayout<FinishedSpan>.stride + attributes.count * MemoryLayout<Attribute>.stride + 64
    bytes += context.state?.description.utf8.count ?? 0
    for case .text(let text) in attributes.map(\.value) { bytes += text.utf8.count + 32 }
    return bytes
  }
}
