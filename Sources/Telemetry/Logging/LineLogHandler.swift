import Bytes
package import Logging

/// A swift-log handler that writes events as lines of JSON or text to a ``LogSink``.
///
/// Nested metadata gets dotted keys: `["request": ["id": "7"]]` is the field `request.id`.
package struct LineLogHandler: LogHandler {
  package let label: String
  private let sink: LogSink

  /// That of the sink, unless this copy of the handler has another one.
  package var logLevel: Logger.Level {
    get { ownLevel ?? sink.filter.level }
    set { ownLevel = newValue }
  }
  private var ownLevel: Logger.Level?
  package var metadata: Logger.Metadata = [:]
  /// The provider of task-local metadata for every line, which overrides ``metadata``.
  package var metadataProvider: Logger.MetadataProvider?

  package init(label: String, sink: LogSink, metadataProvider: Logger.MetadataProvider? = nil) {
    (self.label, self.sink, self.metadataProvider) = (label, sink, metadataProvider)
  }

  package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  package func log(event: LogEvent) {
    let fields = fields(of: event)
    sink.append { bytes, format, time in append(event, fields, to: &bytes, format: format, time: time) }
  }

  func append(
    _ event: LogEvent, _ fields: [(name: String, value: Logger.Metadata.Value)], to bytes: inout [UInt8],
    format: LogFormat, time: LineTime
  ) {
    let message = event.message.description
    let fields = fields.map { (name: $0.name, texts: $0.value.texts, isList: $0.value.isList) }
    let texts = fields.reduce(message.utf8.count + label.utf8.count) { count, field in
      field.texts.reduce(count + field.name.utf8.count) { $0 + $1.utf8.count }
    }
    // The most bytes around names and texts: separators, brackets and quotes.
    let marks = fields.reduce(0) { $0 + 8 + 3 * $1.texts.count }
    let room = LogFormat.roomForRecord + LogFormat.room(forTexts: texts) + marks
    bytes.append(addingCapacity: room) { (line: inout OutputSpan<UInt8>) in
      format.begin(&line, time: time, level: event.level.name, message: message)
      format.field(&line, "label", label)
      for (name, texts, isList) in fields {
        if isList { format.field(&line, name, texts) } else { format.field(&line, name, texts[0]) }
      }
      format.end(&line)
    }
  }

  /// Returns the merged metadata, flat and sorted by name. The event overrides the provider, and that the handler.
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

extension Logger.MetadataValue {
  fileprivate var isList: Bool { if case .array = self { true } else { false } }

  /// The elements of a list, or the only text of another value.
  fileprivate var texts: [String] {
    if case .array(let values) = self { values.map(\.description) } else { [description] }
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
