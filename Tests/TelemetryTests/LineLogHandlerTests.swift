import Logging
import Testing

@testable import Telemetry

@Suite("The log handler")
struct LineLogHandlerTests {
  struct Broken: Error, CustomStringConvertible {
    let description = "broken"
  }

  static func line(_ format: LogFormat, _ handler: LineLogHandler, _ event: LogEvent) -> String {
    var bytes: [UInt8] = []
    handler.append(event, handler.fields(of: event), to: &bytes, format: format, time: LogFormatTests.time)
    return String(decoding: bytes, as: UTF8.self).replacing("2026-09-21T14:13:20.123Z", with: "T")
  }

  static func event(_ metadata: Logger.Metadata?, error: (any Error)? = nil) -> LogEvent {
    LogEvent(
      level: .warning, message: "hello", error: error, metadata: metadata, source: nil, file: "f", function: "g",
      line: 1)
  }

  @Test("flattens and sorts the metadata, and prefers the most specific value of each name")
  func metadata() {
    let provider = Logger.MetadataProvider { ["b": "provider", "c": "provider"] }
    var handler = LineLogHandler(
      label: "test", sink: LogSink(descriptor: -1, format: .json), metadataProvider: provider)
    handler[metadataKey: "a"] = "handler"
    handler[metadataKey: "b"] = "handler"
    let event = Self.event(
      ["c": "event", "n": ["x": ["y": "deep"], "z": .stringConvertible(7)], "l": ["1", "2"], "time": "mine"])
    #expect(handler[metadataKey: "a"] == "handler")
    #expect(
      Self.line(.json, handler, event)
        == #"{"time":"T","level":"warning","message":"hello","label":"test","_time":"mine","a":"handler","#
        + #""b":"provider","c":"event","l":["1","2"],"n.x.y":"deep","n.z":"7"}"# + "\n")
    #expect(
      Self.line(.text, handler, event)
        == "T warning hello label=test _time=mine a=handler b=provider c=event l=[\"1\",\"2\"] n.x.y=deep n.z=7\n")
  }

  @Test("has room for the longest values, each character escaped", arguments: LogFormat.allCases)
  func longestValues(_ format: LogFormat) {
    let text = String(repeating: "\u{1B}", count: 1000)
    let list = Logger.Metadata.Value.array([Logger.Metadata.Value](repeating: .string(text), count: 20))
    var metadata: Logger.Metadata = [
      "list": list, "empty": .array([Logger.Metadata.Value](repeating: "", count: 1000)),
    ]
    for number in 0..<200 { metadata["\(text)\(number)"] = .string(text) }
    let line = Self.line(
      format, LineLogHandler(label: text, sink: LogSink(descriptor: -1, format: format)), Self.event(metadata))
    #expect(line.utf8.count > 6000 * (1 + 20 + 400))
  }

  @Test("writes the error of an event")
  func error() {
    let handler = LineLogHandler(label: "test", sink: LogSink(descriptor: -1, format: .text))
    #expect(Self.line(.text, handler, Self.event(nil, error: Broken())) == "T warning hello label=test error=broken\n")
  }

  @Test("writes only messages at or above the logger's level to the sink")
  func logger() throws {
    let pipe = try TestPipe()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .text, filter: LogFilter(level: .notice))
    let logger = Logger(label: "test") { LineLogHandler(label: $0, sink: sink) }
    logger.info("too quiet")
    logger.notice("loud")
    #expect(sink.flush(timeout: .seconds(60)))
    let text = pipe.readAvailable()
    #expect(text.hasSuffix(" notice loud label=test\n"))
    #expect(!text.contains("quiet"))
  }
}
