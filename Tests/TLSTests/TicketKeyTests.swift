import Locks
import TestSupport
import Testing

@testable import TLS

@Suite("The keys of session tickets")
struct TicketKeyTests {
  /// A clock that a test sets.
  private final class Clock: Sendable {
    private let time = Locked(1_795_000_000)

    var now: Int { time.withLock { $0 } }

    func advance(by seconds: Int) { time.withLock { $0 += seconds } }
  }

  private let clock = Clock()
  private let files: Files

  init() throws { files = try Files() }

  private func context(resuming previous: TLSContext? = nil) throws -> TLSContext {
    try TLSContext(
      certificateFile: files.certificateFile, keyFile: files.keyFile, resumingTicketsOf: previous,
      now: { [clock] in clock.now })
  }

  @Test("decrypt tickets of the current and the previous day, and no older tickets", arguments: Version.allCases)
  func twoDays(version: Version) throws {
    let context = try context()
    let session = try Tickets.session(from: context, version)
    clock.advance(by: TicketKeys.period - 1)
    #expect(try Tickets.resumes(session, with: context, version))
    clock.advance(by: 1)
    #expect(try Tickets.resumes(session, with: context, version), "the key before")
    clock.advance(by: TicketKeys.period - 1)
    #expect(try Tickets.resumes(session, with: context, version))
    clock.advance(by: 1)
    #expect(try !Tickets.resumes(session, with: context, version))
  }

  @Test("are replaced after a time without connections as well", arguments: Version.allCases)
  func afterSilence(version: Version) throws {
    let context = try context()
    let session = try Tickets.session(from: context, version)
    clock.advance(by: 2 * TicketKeys.period)
    #expect(try !Tickets.resumes(session, with: context, version))
    let fresh = try Tickets.session(from: context, version)
    #expect(try Tickets.resumes(fresh, with: context, version))
  }

  @Test("survive a reload with the same private key, and keep their age", arguments: Version.allCases)
  func reload(version: Version) throws {
    let old = try context()
    clock.advance(by: TicketKeys.period - 1)
    let session = try Tickets.session(from: old, version)
    let new = try context(resuming: old)
    #expect(try Tickets.resumes(session, with: new, version))
    clock.advance(by: TicketKeys.period)
    #expect(try Tickets.resumes(session, with: new, version))
    clock.advance(by: 1)
    #expect(try !Tickets.resumes(session, with: new, version))
  }

  @Test("are replaced when the clock goes back by more than a day")
  func clockGoesBack() throws {
    let context = try context()
    let session = try Tickets.session(from: context, .tls13)
    clock.advance(by: -TicketKeys.period - 1)
    #expect(try !Tickets.resumes(session, with: context, .tls13))
  }
}

/// Sessions of clients, and attempts to resume them.
enum Tickets {
  /// The session of a client that has received its ticket.
  static func session(from context: TLSContext, _ version: Version) throws -> TLSClient.Session {
    let client = try TLSClient(version.settings)
    let server = try Server(context)
    try server.shakeHands(with: client)
    client.receive(try server.send([1]))
    #expect(client.read() == [1])
    return try #require(client.session)
  }

  /// Whether a client with this session avoids a full handshake.
  static func resumes(_ session: TLSClient.Session, with context: TLSContext, _ version: Version) throws -> Bool {
    var settings = version.settings
    settings.session = session
    let server = try Server(context)
    let client = try TLSClient(settings)
    try server.shakeHands(with: client)
    try server.receive(client.write([7]))
    #expect(server.plaintext == [7])
    return server.session.wasResumed
  }
}
