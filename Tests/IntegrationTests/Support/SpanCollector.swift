import Bytes
import JSON
import TestSupport
import Testing

/// A running `collector.py`: a collector of spans that judges them by OpenTelemetry's own messages.
struct SpanCollector {
  let server: RunningServer

  /// Starts a collector, over TLS if there is a certificate.
  init(port: UInt16 = 0, certificate: (file: String, keyFile: String)? = nil) throws {
    let files = certificate.map { [$0.file, $0.keyFile] } ?? []
    server = try RunningServer(
      Repository.python, [Repository.script("collector.py"), "\(port)"] + files,
      environment: ["PYTHONDONTWRITEBYTECODE": "1"])
  }

  /// The settings of a server that exports every span to this collector soon.
  var settings: [String: String] {
    ["OTEL_EXPORTER_OTLP_ENDPOINT": server.url, "OTEL_BSP_SCHEDULE_DELAY": "50"]
  }

  /// Sets the behaviour of later requests.
  func behave(_ behaviour: String) throws { try server.behave(behaviour) }

  /// Everything that the collector has received.
  func state() throws -> JSONValue { try #require(try server.admin("/").json) }

  /// The number of requests, refused ones included.
  func attempts() throws -> Int { try state()["attempts"]?.integer ?? 0 }

  /// The spans that it has taken, after this number of them has arrived. Defects of any request are failures.
  func spans(_ count: Int = 0) throws -> [CollectedSpan] {
    try eventually("\(count) spans arrive") {
      let state = try self.state()
      return Self.elements(state["spans"]).count >= count
    }
    let state = try state()
    let defects = Self.elements(state["defects"])
    guard defects.isEmpty else { throw TestFailure("The collector found defects: \(defects)") }
    let spans = Self.elements(state["spans"])
    return try spans.map { try CollectedSpan($0) }
  }

  private static func elements(_ value: JSONValue?) -> [JSONValue] {
    if case .array(let elements)? = value { elements } else { [] }
  }
}

/// A span as the collector has received it.
struct CollectedSpan {
  let trace: String
  let span: String
  /// The parent, or an empty text without one.
  let parent: String
  let name: String
  let isServer: Bool
  let flags: Int
  let hasFailed: Bool
  /// The begin and the end in nanoseconds since 1970.
  let start: UInt64
  let end: UInt64
  let state: String
  private let attributes: JSONValue

  init(_ value: JSONValue) throws {
    func text(_ name: String) throws -> String { try #require(value[name]?.string) }
    trace = try text("trace")
    span = try text("span")
    parent = try text("parent")
    name = try text("name")
    state = try text("state")
    isServer = value["kind"]?.integer == 2
    flags = try #require(value["flags"]?.integer)
    hasFailed = value["failed"] == .bool(true)
    start = try #require(UInt64(try text("start")))
    end = try #require(UInt64(try text("end")))
    attributes = try #require(value["attributes"])
  }

  /// An attribute as text.
  subscript(name: String) -> String? {
    attributes[name].map { $0.string ?? $0.integer.map { "\($0)" } ?? "" }
  }

  /// The names of all attributes, sorted.
  var names: [String] { attributes.members.map(\.name.text).sorted() }
}
