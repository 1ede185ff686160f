import CatalogProxy
import Locks
import Logging
import Testing

@testable import TokenServer
@testable import UpstreamAdmission

@Suite("The log of upstream events")
struct CatalogEventsTests {
  /// A log handler that keeps the messages.
  private struct Lines: LogHandler {
    private let written = Locked<[String]>([])
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    var messages: [String] { written.withLock { $0 } }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      written.withLock { $0.append("\(event.message)") }
    }
  }

  @Test("has two lines for a rapidly flapping state, and the second reports the recovery")
  func flapping() {
    let lines = Lines()
    let events = CatalogEvents(logger: Logger(label: "test") { _ in lines })
    let rejection = TokenRejection(upstreamDate: nil, now: 0)
    for _ in 0..<1000 {
      events.noticed(.tokenRejected(rejection, keyID: nil))
      events.noticed(.tokenAccepted)
      events.noticed(.circuitOpened)
      events.noticed(.circuitClosed)
    }
    #expect(lines.messages.count == 4, "\(lines.messages.prefix(10))")
    #expect(lines.messages.count { $0.contains("accepts this server's developer tokens again") } == 1)
    #expect(lines.messages.count { $0 == "Apple Music responds again." } == 1)
  }
}
