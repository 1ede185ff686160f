import Bytes
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPClient

@Suite("A request that is too large for an HTTP/2 connection's settings")
struct FieldSectionLimitTests {
  /// SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113 §6.5.2).
  private static let maxHeaderListSize: UInt16 = 6

  private let peer: ScriptedPeer
  private let client: TestClient

  init() throws {
    peer = try ScriptedPeer()
    client = try TestClient(port: peer.port) { $0.http2 = .priorKnowledge }
  }

  /// A connection whose settings allow less than every request needs; its first request was sent before the settings.
  private func smallConnection() throws -> PeerConnection {
    let call = client.send()
    let connection = try peer.accept()
    #expect(try connection.http2Requests(1) == [1])
    connection.send(H2Frame.settings(Self.maxHeaderListSize, 100) + H2Frame.ok(1, flags: 5))
    #expect(try call.received().status == 200)
    return connection
  }

  @Test("waits for the settings of another connection, and is sent on that connection")
  func another() throws {
    let small = try smallConnection()
    let call = client.send(.get, "/large")
    let connection = try peer.accept()
    try client.wait { $0.connections.contains { $0.isSettling } && $0.counters.requestsWaiting == 1 }
    connection.send(H2Frame.settings)
    #expect(try connection.http2Requests(1) == [1])
    connection.send(H2Frame.ok(1, flags: 5))
    #expect(try call.received().status == 200)
    try client.wait { $0.counters.requestsOpen == 0 && $0.counters.connectionsOpen == 1 }
    withExtendedLifetime(small) {}
  }

  @Test("fails with the limit if every connection has the limit and HTTP/1.1 is unavailable")
  func none() throws {
    let small = try smallConnection()
    let call = client.send(.get, "/large")
    let connection = try peer.accept()
    connection.send(H2Frame.settings(Self.maxHeaderListSize, 100))
    let error = try #require(try call.failure())
    #expect(error.progress == .unprocessed)
    #expect(error.description.contains("100 bytes"))
    #expect(try client.send().failure()?.description.contains("100 bytes") == true)
    #expect(client.client.counters.connectionsOpened == 2, "the second connection stays")
    #expect(client.client.counters.requestsOpen == 0)
    withExtendedLifetime(small) {}
  }
}
