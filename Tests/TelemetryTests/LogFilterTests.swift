import Logging
import Testing
import Tracing

@testable import Telemetry

@Suite("The filter of the log")
struct LogFilterTests {
  @Test("changes the level of loggers that exist already")
  func level() {
    let filter = LogFilter(level: .warning)
    let sink = LogSink(descriptor: -1, format: .json, filter: filter)
    var logger = Logger(label: "test") { LineLogHandler(label: $0, sink: sink) }
    #expect(logger.logLevel == .warning && !filter.hasRequests && !AuditLog(onto: sink).keepsGrants)
    for level in Logger.Level.allCases {
      filter.set(level: level, access: 1)
      #expect(logger.logLevel == level && filter.level == level && filter.hasRequests == (level <= .info))
    }
    logger.logLevel = .error
    #expect(logger.logLevel == .error && filter.level == .critical)
  }

  @Test("has a line of each error, and of a part of the other requests", arguments: [0, 0.01, 0.5, 1])
  func part(_ part: Double) {
    let filter = LogFilter(access: part)
    var traces = TraceIDGenerator()
    let count = (0..<10_000).count { _ in filter.hasAccessLine(status: 200, of: RequestTrace(traces.next())) }
    // Five standard deviations.
    #expect(abs(Double(count) - 10_000 * part) <= 5 * (10_000 * part * (1 - part)).squareRoot())
    for status in [400, 404, 429, 499, 500, 503] {
      #expect(filter.hasAccessLine(status: status, of: RequestTrace(traces.next())))
    }
    filter.set(level: .warning, access: part)
    #expect(!filter.hasAccessLine(status: 500, of: RequestTrace(traces.next())))
  }
}
