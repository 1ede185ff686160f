import Bytes
public import Logging

/// swift-log's lines, as JSON or text, into a ``LogSink``.
///
/// Nested metadata gets dotted keys: `["request": ["id": "7"]]` is the field `request.id`.
public struct LineLogHandler: LogHandler {
  /// The name of the logger.
  public let label: String
  /// Where lines go.
  private let sink: LogSink

  /// The least that is logged.
  public var logLevel: Logger.Level
  /// On every line.
  public var metadata: Logger.Metadata = [:]
  /// On every line, from the task that logs; it wins over ``metadata``.
  public var metadataProvider: Logger.MetadataProvider?

  /// A handler for a logger called `label`.
  public init(
    label: String, sink: LogSink, level: Logger.Level = .info, metadataProvider: Logger.MetadataProvider? = nil
  ) {
    self.label = label
    self.sink = sink
    logLevel = level
    self.metadataProvider = metadataProvider
  }

  /// One item of ``metadata``.
  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  /// Writes one line.
  public func log(event: LogEvent) {
    let fields = fields(of: event)
    sink.append { bytes, format in
      append(event, fields, to: &bytes, format: format, time: .now())
    }
  }

  func append(
    _ event: LogEvent, _ fields: [(name: String, value: Logger.Metadata.Value)], to bytes: inout [UInt8],
    format: LogFormat, time: WallTime
  ) {
    format.begin(&bytes, time: time, level: event.level.name, message: event.message.description)
    format.field(&bytes, "label", label)
    for (name, value) in fields {
      if case .array(let values) = value {
        format.field(&bytes, name, values.map(\.description))
      } else {
        format.field(&bytes, name, value.description)
      }
    }
    format.end(&bytes)
  }

  /// The event's metadata over the provider's over the handler's, flat and in the order of their names.
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
