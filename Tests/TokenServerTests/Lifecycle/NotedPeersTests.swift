import EventLoop
import Testing

@testable import TokenServer

@Suite("The table of warned peers")
struct NotedPeersTests {
  @Test("reports each peer as new only once")
  func once() {
    var peers = WarnedPeers()
    #expect(peers.note(IPAddress("192.0.2.1")) == .new)
    #expect(peers.note(IPAddress("192.0.2.1")) == .known)
    #expect(peers.note(IPAddress("192.0.2.2")) == .new)
    #expect(peers.note(nil) == .new)
    #expect(peers.note(nil) == .known)
  }

  @Test("has a bounded size and keeps its entries")
  func bound() {
    var peers = WarnedPeers()
    let addresses = (0..<WarnedPeers.maximum).map { IPAddress(v4: UInt32($0)) }
    #expect(addresses.allSatisfy { peers.note($0) == .new })
    #expect(peers.note(IPAddress("192.0.2.1")) == .tooMany)
    #expect(peers.note(IPAddress("192.0.2.1")) == .tooMany)
    #expect(addresses.allSatisfy { peers.note($0) == .known })
  }
}
