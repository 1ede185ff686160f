import COpenSSL
import TLS
import TestSupport
import Testing

@Suite("Resumption")
struct ResumptionTests {
  @Test("a ticket avoids the full handshake", arguments: Version.allCases)
  func resumes(version: Version) throws {
    let context = try Files().context()
    let session = try Tickets.session(from: context, version)
    #expect(try Tickets.resumes(session, with: context, version))
  }

  @Test("each TLS 1.3 handshake issues one ticket, a resumed handshake as well")
  func oneTicket() throws {
    let context = try Files().context()
    let first = try TLSClient()
    try Server(context).shakeHands(with: first)
    _ = first.read()
    #expect(first.ticketCount == 1)
    let second = try TLSClient(TLSClient.Settings(session: first.session))
    try Server(context).shakeHands(with: second)
    _ = second.read()
    #expect(second.ticketCount == 1)
  }

  @Test("a certificate renewed for the same key keeps the tickets valid", arguments: Version.allCases)
  func renewalKeepsTickets(version: Version) throws {
    let key = try KeyPair()
    let old = try Files(Certificate(key: key)).context()
    let session = try Tickets.session(from: old, version)
    let renewed = try Files(Certificate(key: key)).context(resuming: old)
    #expect(try Tickets.resumes(session, with: renewed, version))
  }

  @Test("a new private key invalidates the tickets, and new tickets are valid", arguments: Version.allCases)
  func newKeyVoidsTickets(version: Version) throws {
    let old = try Files().context()
    let session = try Tickets.session(from: old, version)
    for algorithm: KeyPair.Algorithm in [.p256, .rsa(2048)] {
      let rekeyed = try Files(algorithm).context(resuming: old)
      #expect(try !Tickets.resumes(session, with: rekeyed, version))
      let fresh = try Tickets.session(from: rekeyed, version)
      #expect(try Tickets.resumes(fresh, with: rekeyed, version))
    }
  }

  @Test("another server's ticket leads to a full handshake instead of a failure", arguments: Version.allCases)
  func foreignTicket(version: Version) throws {
    let session = try Tickets.session(from: Files().context(), version)
    #expect(try !Tickets.resumes(session, with: Files().context(), version))
  }

  @Test("a change of the client CAs invalidates the tickets, even if the keys are kept", arguments: Version.allCases)
  func newAuthorities(version: Version) throws {
    let files = try Files()
    let first = try files.directory.write(Certificate("CA 1", key: KeyPair(), isAuthority: true).pem, to: "ca1.pem")
    let second = try files.directory.write(Certificate("CA 2", key: KeyPair(), isAuthority: true).pem, to: "ca2.pem")
    let old = try files.context(clientCAFile: first)
    let session = try Tickets.session(from: old, version)
    #expect(try Tickets.resumes(session, with: files.context(clientCAFile: first, resuming: old), version))
    #expect(try !Tickets.resumes(session, with: files.context(clientCAFile: second, resuming: old), version))
    #expect(try !Tickets.resumes(session, with: files.context(resuming: old), version))
  }
}
