import Bytes
public import Logging
public import Tracing

/// A swift-log handler that writes events as lines of JSON or text to a ``LogSink``.
///
/// Nested metadata gets dotted keys: `["request": ["id": "7"]]` is the field `request.id`.
public struct LineLogHandler: LogHandler {
  /// The name of the logger.
  public let label: String
  /// The destination of the lines.
  private let sink: LogSink

  /// The lowest level that is logged: that of the sink, unless this copy of the handler has another one.
  public var logLevel: Logger.Level {
    get { ownLevel ?? sink.filter.level }
    set { ownLevel = newValue }
  }
  private var ownLevel: Logger.Level?
  /// The metadata on every line.
  public var metadata: Logger.Metadata = [:]
  /// The provider of task-local metadata for every line, which overrides ``metadata``.
  public var metadataProvider: Logger.MetadataProvider?

  /// Creates a handler for a logger called `label`.
  public init(
    label: String, sink: LogSink, metadataProvider: Logger.MetadataProvider? = nil
  ) {
    self.label = label
    self.sink = sink
    self.metadataProvider = metadataProvider
  }

  /// Accesses one item of ``metadata``.
  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  /// Writes one line.
  public func log(event: LogEvent) {
    let fields = fields(of: event)
    sink.append { bytes, format, time in
      append(event, fields, to: &bytes, format: format, time: time)
    }
  }

  func append(
    _ event: LogEvent, _ fields: [(name: String, value: Logger.Metadata.Value)], to bytes: inout [UInt8],
    format: LogFormat, time: LineTime
  ) {
    let message = event.message.description
    let fields = fields.map { (name: $0.name, value: FieldValue($0.value)) }
    let texts = fields.reduce(message.utf8.count + label.utf8.count) { $0 + $1.name.utf8.count + $1.value.utf8Count }
    let marks = fields.reduce(0) { $0 + $1.value.marks }
    let room = LogFormat.roomForRecord + LogFormat.room(forTexts: texts) + marks
    bytes.append(addingCapacity: room) { (line: inout OutputSpan<UInt8>) in
      format.begin(&line, time: time, level: event.level.name, message: message)
      format.field(&line, "label", label)
      for (name, value) in fields {
        switch value {
        case .text(let text): format.field(&line, name, text)
        case .list(let texts): format.field(&line, name, texts)
        }
      }
      format.end(&line)
    }
  }

  private enum FieldValue {
    case text(String)
    case list([String])

    init(_ value: Logger.Metadata.Value) {
      self = if case .array(let values) = value { .list(values.map(\.description)) } else { .text(value.description) }
    }

    var utf8Count: Int {
      switch self {
      case .text(let text): text.utf8.count
      case .list(let texts): texts.reduce(0) { $0 + $1.utf8.count }
      }
    }

    /// The most bytes around name and texts: separators, brackets and quotes.
    var marks: Int {
      switch self {
      case .text: 8
      case .list(let texts): 8 + 3 * texts.count
      }
    }
  }

  /// Returns the merged metadata, flat and sorted by name. The event overrides the provider, which overrides the
  /// handler.
  func fields(of event: LogEvent) -> [(name: String, value: Logger.Metadata.Value)] {
    var merged = metadata
    if let provided = metadataProvider?.get() { merged.merge(provided) { $1 } }
    if let own = event.metadata { merged.merge(own) { $1 } }
    if let error = event.error { merged["error"] = "\(error)" }
    var fields: [(name: String, value: Logger.Metadata.Value)] = []
    flatten(merged, prefix: "", into: &fields)
    return fields.sorted { $0.name < $1.name }
  }

  private func flatten(
    _ metadata: Logger.Metadata, prefix: String, into fields: inout [(name: String, value: Logger.Metadata.Value)]
  ) {
    for (key, value) in metadata {
      let name = prefix + key
      if case .dictionary(let nested) = value {
        flatten(nested, prefix: name + ".", into: &fields)
      } else {
        fields.append((LogFormat.reservedNames.contains(name) ? "_" + name : name, value))
      }
    }
  }
}

extension Logger.Level {
  fileprivate var name: StaticString {
    switch self {
    case .trace: "trace"
    case .debug: "debug"
    case .info: "info"
    case .notice: "notice"
    case .warning: "warning"
    case .error: "error"
    case .critical: "critical"
    }
  }
}

/// The access log record of one request. It contains no query, token or credential.
public struct AccessRecord: Sendable {
  /// The request's identifier.
  public var requestID: RequestID
  /// The request's trace, and the server's span in it.
  public var trace: RequestTrace
  /// The client's address, without the port.
  public var client: String
  /// The request method. The caller replaces unknown methods, because a client may send any text.
  public var method: String
  /// The route's template such as `/token`, never the path as it was sent.
  public var route: StaticString
  /// The path as it was sent, for a person at a terminal; empty for all other logs.
  public var path: [UInt8]
  /// The response's status code.
  public var status: Int
  /// The response's content in bytes.
  public var bytes: Int
  /// The time from the request's first byte to its response, before the response is written.
  public var duration: Duration
  /// What the upstream said in the response that the server has replaced; nil if it has replaced none.
  public var upstream: Upstream?

  /// What an upstream said, in printable texts.
  public struct Upstream: Sendable {
    let status: Int
    let texts: [(name: StaticString, value: String)]

    /// Creates a record of one response.
    public init(
      status: Int, code: String?, id: String?, title: String?, correlationKey: String?, requestUUID: String?
    ) {
      self.status = status
      let texts: [(StaticString, String?)] = [
        (#","upstream.code":"#, code), (#","upstream.id":"#, id), (#","upstream.title":"#, title),
        (#","upstream.correlation_key":"#, correlationKey), (#","upstream.request_uuid":"#, requestUUID),
      ]
      self.texts = texts.compactMap { name, value in value.map { (name, $0) } }
    }

    /// Room in bytes for the names and the status.
    fileprivate static let room = 256
  }

  /// Creates a record of one request.
  public init(
    requestID: RequestID, trace: RequestTrace, client: String, method: String, route: StaticString, path: [UInt8] = [],
    status: Int, bytes: Int, duration: Duration
  ) {
    self.requestID = requestID
    self.trace = trace
    self.client = client
    self.method = method
    self.route = route
    self.path = path
    self.status = status
    self.bytes = bytes
    self.duration = duration
  }
}

extension AccessRecord {
  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    var texts = client.utf8.count + method.utf8.count
    if let upstream { texts += Upstream.room + upstream.texts.reduce(0) { $0 + $1.value.utf8.count } }
    let room = LogFormat.roomForRecord + LogFormat.room(forTexts: texts)
    bytes.append(addingCapacity: room) { (line: inout OutputSpan<UInt8>) in
      format.begin(&line, time: time, level: "info", literal: "access")
      format.field(&line, json: #","request.id":"#, requestID)
      format.field(&line, trace)
      format.field(&line, json: #","client.address":"#, client)
      format.field(&line, json: #","http.method":"#, method)
      format.field(&line, json: #","http.route":"#, word: route)
      format.field(&line, json: #","http.status":"#, status)
      format.field(&line, json: #","response.bytes":"#, self.bytes)
      format.field(&line, json: #","duration.ms":"#, milliseconds: duration)
      if let upstream {
        format.field(&line, json: #","upstream.status":"#, upstream.status)
        for (name, value) in upstream.texts { format.field(&line, json: name, value) }
      }
      format.end(&line)
    }
  }
}

/// A record for a person at a terminal: `15:04:05Z  200  GET /v1/catalog/us/songs/1  1.234 ms`, with a colour for the status.
extension AccessRecord {
  /// The maximum number of columns in a line, without escape sequences.
  public static let columns = 120

  func appendForPerson(to bytes: inout [UInt8], time: LineTime) {
    bytes.appendClock(time)
    bytes.append(colour)
    bytes.append(decimal: status)
    bytes.append("\u{1B}[0m  ")
    bytes.appendWord(method, atMost: 8)
    bytes.append(" ")
    // The other parts have at most 44 columns: time 11, status 5, method 9, and a duration below 100 days 19.
    if path.isEmpty {
      bytes.appendWord(route.description, atMost: Self.columns - 44)
    } else {
      bytes.appendWord(path, atMost: Self.columns - 44)
    }
    bytes.append("  ")
    bytes.append(addingCapacity: 32) { (line: inout OutputSpan<UInt8>) in
      line.appendMilliseconds(duration)
      line.append(" ms\n")
    }
  }

  private var colour: StaticString {
    switch status {
    case ..<300: "\u{1B}[32m"
    case ..<400: "\u{1B}[36m"
    case ..<500: "\u{1B}[33m"
    default: "\u{1B}[31m"
    }
  }
}

extension [UInt8] {
  /// Appends the time of day for a person: `15:04:05Z` and two spaces.
  mutating func appendClock(_ time: LineTime) {
    append(addingCapacity: 11) { (line: inout OutputSpan<UInt8>) in
      line.appendClock(time)
      line.append("Z  ")
    }
  }

  /// Appends the first `limit` bytes of `text`. Bytes that are not printable ASCII become `?`.
  mutating func appendWord(_ text: String, atMost limit: Int) {
    appendWord(text.utf8, atMost: limit)
  }

  mutating func appendWord(_ text: some Sequence<UInt8>, atMost limit: Int) {
    for byte in text.prefix(limit) { append((0x21..<0x7F).contains(byte) ? byte : UInt8(ascii: "?")) }
  }
}
