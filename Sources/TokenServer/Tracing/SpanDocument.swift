import Bytes
import Tracing

/// Spans in the JSON form of OTLP's `ExportTraceServiceRequest`, for one request to a collector.
///
/// <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>: identifiers are hexadecimal, enumerations are
/// numbers, and 64-bit integers are strings.
struct SpanDocument: Sendable {
  private var bytes: [UInt8] = []
  private var isEmpty = true

  /// Begins a document with the properties of this process, such as `service.name`, and the program that makes the spans.
  init(resource: [(key: String, value: String)], scope: (name: String, version: String)) {
    bytes.append("{\"resourceSpans\":[{\"resource\":{\"attributes\":[")
    for (index, attribute) in resource.enumerated() {
      if index > 0 { bytes.append(",") }
      bytes.append("{\"key\":")
      bytes.append(jsonString: attribute.key)
      bytes.append(",\"value\":{\"stringValue\":")
      bytes.append(jsonString: attribute.value)
      bytes.append("}}")
    }
    bytes.append("]},\"scopeSpans\":[{\"scope\":{\"name\":")
    bytes.append(jsonString: scope.name)
    bytes.append(",\"version\":")
    bytes.append(jsonString: scope.version)
    bytes.append("},\"spans\":[")
  }

  mutating func add(_ span: FinishedSpan) {
    bytes.append(isEmpty ? "{\"traceId\":\"" : ",{\"traceId\":\"")
    isEmpty = false
    bytes.append(span.context.traceID)
    bytes.append("\",\"spanId\":\"")
    bytes.append(span.context.spanID)
    if let parent = span.parent {
      bytes.append("\",\"parentSpanId\":\"")
      bytes.append(parent)
    }
    bytes.append("\"")
    if let state = span.context.state {
      bytes.append(",\"traceState\":")
      bytes.append(jsonString: state.description)
    }
    bytes.append(",\"flags\":")
    bytes.append(decimal: span.flags)
    bytes.append(",\"name\":\"")
    bytes.append(span.method)
    if let route = span.route {
      bytes.append(" ")
      bytes.append(route)
    }
    bytes.append("\",\"kind\":")
    bytes.append(decimal: span.kind.rawValue)
    bytes.append(",\"startTimeUnixNano\":\"")
    bytes.append(decimal: Int(clamping: span.start))
    bytes.append("\",\"endTimeUnixNano\":\"")
    bytes.append(decimal: Int(clamping: span.end))
    bytes.append("\",\"attributes\":[")
    for (index, attribute) in span.attributes.enumerated() {
      if index > 0 { bytes.append(",") }
      add(attribute)
    }
    bytes.append("],\"status\":{")
    if span.hasFailed { bytes.append("\"code\":2") }
    bytes.append("}}")
  }

  private mutating func add(_ attribute: FinishedSpan.Attribute) {
    bytes.append("{\"key\":\"")
    bytes.append(attribute.key)
    bytes.append("\",\"value\":{")
    switch attribute.value {
    case .word(let word):
      bytes.append("\"stringValue\":\"")
      bytes.append(word)
      bytes.append("\"")
    case .text(let text):
      bytes.append("\"stringValue\":")
      bytes.append(jsonString: text)
    case .number(let number):
      bytes.append("\"intValue\":\"")
      bytes.append(decimal: number)
      bytes.append("\"")
    }
    bytes.append("}}")
  }

  consuming func finish() -> [UInt8] {
    bytes.append("]}]}]}")
    return bytes
  }
}

extension FinishedSpan {
  /// The flags of W3C, and whether the parent is remote, which is known (`SpanFlags` of OTLP).
  fileprivate var flags: Int { (context.isSampled ? 1 : 0) | 0x100 | (kind == .server && parent != nil ? 0x200 : 0) }
}
