import Glibc
import TestSupport
import Testing

@testable import EventLoop

/// A socket that the test has opened in place of a service manager, which keeps it.
private final class OpenSocket: Sendable {
  let descriptor: Int32
  let port: UInt16

  init(backlog: Int32 = 100) throws {
    let listeners = try Listener.open(.tcp(host: "127.0.0.1", port: 0), loops: 1)
    guard let port = listeners.first?.first?.address.port else { throw TestFailure("There is no port.") }
    // Bound again right after the first listener has ended.
    _ = consume listeners
    // The test's own socket, bound without the listener's options.
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    self.port = port
    var one: Int32 = 1
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, 4)
    let address = SocketAddress.ip(IPAddress(v4: 0x7f00_0001), port: port)
    try Listener.bind(Descriptor(owning: dup(descriptor)), to: address)
    guard listen(descriptor, backlog) == 0 else { throw TestFailure("The socket does not listen.") }
  }

  deinit { close(descriptor) }

  /// A copy, as a process inherits it.
  func passed() throws -> PassedSocket { try PassedSocket(dup(descriptor), name: nil) }
}

@Suite struct PassedSocketTests {
  @Test("the loops get the connections of a passed socket in turn", arguments: IOLoop.PollerKind.allCases)
  func shares(_ kind: IOLoop.PollerKind) throws {
    let socket = try OpenSocket()
    let loops = try (0..<3).map { _ in try IOLoop.forTest(kind) }
    let notes = loops.map { _ in Notes<SocketAddress>() }
    let owners = notes.map(Acceptor.init)
    let listeners = try Listener.open(.passed([socket.passed()]), loops: 3)
    #expect(listeners.map(\.count) == [3])
    let clients = try (0..<60).map { _ in try RawClient(port: socket.port) }
    for (index, loop) in loops.enumerated() {
      let (listener, owner) = (listeners[0][index], owners[index])
      // All connections wait when the first loop starts.
      loop.loop.performAndWait { listener.start(on: loop.loop, for: owner) }
    }
    wait(for: "all connections") { notes.map(\.all.count).reduce(0, +) == clients.count }
    #expect(notes.map(\.all.count) == [20, 20, 20])
    withExtendedLifetime(owners) {}
  }

  @Test("connections that wait during a drain are the next process's", arguments: IOLoop.PollerKind.allCases)
  func leaves(_ kind: IOLoop.PollerKind) throws {
    let socket = try OpenSocket()
    let (first, second) = (Notes<SocketAddress>(), Notes<SocketAddress>())
    let owners = [Acceptor(first), Acceptor(second)]
    let loop = try IOLoop.forTest(kind)
    let old = try Listener.open(.passed([socket.passed()]), loops: 1)[0][0]
    loop.loop.performAndWait { old.start(on: loop.loop, for: owners[0]) }
    let early = try RawClient(port: socket.port)
    first.wait(for: 1)
    loop.loop.performAndWait { old.refuseConnectionRequests() }
    let waiting = try (0..<10).map { _ in try RawClient(port: socket.port) }
    loop.loop.performAndWait { old.acceptRestAndClose() }
    let new = try Listener.open(.passed([socket.passed()]), loops: 1)[0][0]
    loop.loop.performAndWait { new.start(on: loop.loop, for: owners[1]) }
    second.wait(for: waiting.count)
    #expect(first.all.count == 1)
    withExtendedLifetime((early, owners)) {}
  }

  @Test("a passed socket closes on exec, does not block, and has its address")
  func flags() throws {
    let socket = try OpenSocket()
    let passed = try socket.passed()
    defer { close(passed.descriptor) }
    #expect(fcntl(passed.descriptor, F_GETFD) & FD_CLOEXEC != 0)
    #expect(fcntl(passed.descriptor, F_GETFL) & O_NONBLOCK != 0)
    #expect(passed.address == .ip(IPAddress(v4: 0x7f00_0001), port: socket.port))
  }

  @Test(
    "a descriptor that is not a listening stream socket is refused",
    arguments: ["TCP", "UDP", "Unix", "none"])
  func refuses(kind: String) {
    let type = Int32((kind == "UDP" ? SOCK_DGRAM : SOCK_STREAM).rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = kind == "none" ? dup(0) : socket(kind == "Unix" ? AF_UNIX : AF_INET, type, 0)
    defer { close(descriptor) }
    let error = #expect(throws: PassedSocketError.self) { try PassedSocket(descriptor, name: "public") }
    #expect(
      error?.description == "The service manager passes descriptor \(descriptor), which is not a listening stream "
        + "socket of IPv4, IPv6 or Unix; write ListenStream= and Accept=no in the socket unit.")
  }
}

/// Notes accepted connections, and closes them.
private final class Acceptor: Listener.Owner, Sendable {
  private let peers: Notes<SocketAddress>

  init(_ peers: Notes<SocketAddress>) { self.peers = peers }

  func listener(_ listener: Listener, accepted descriptor: consuming Descriptor, from peer: SocketAddress) {
    _ = consume descriptor
    peers.add(peer)
  }

  func listener(_ listener: Listener, cannotAccept error: SocketError) -> Bool { false }

  func listener(_ listener: Listener, isCrowded: Bool) {}
}
