import DeveloperToken
import EventLoop
import Logging
import Telemetry
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("A token that cannot be minted")
struct AccessServiceTests {
  @Test("causes one warning with the reason, not one per request")
  func failedToken() throws {
    let notes = KeySetGround.Notes()
    let loop = try IOLoop.start(label: "test")
    defer { loop.stop() }
    let service = try AccessService(
      Settings.Audit(), loops: [loop], sink: LogSink(descriptor: -1, format: .text),
      logger: Logger(label: "test") { _ in KeySetGround.NotingHandler(notes: notes) })
    for _ in 0..<100 { service.warn(ofFailedToken: .implausibleClock(now: 7)) }
    #expect(notes.warnings.count == 1)
    #expect(notes.warnings.first?.contains("7 seconds since 1970") == true)
  }
}
