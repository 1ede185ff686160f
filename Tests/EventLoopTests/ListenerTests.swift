import Dispatch
import Glibc
import Locks
import TestSupport
import Testing

@testable import EventLoop

@Suite struct ListenerTests {
  @Test(
    "a listener on port 0 gets a free port, and connections arrive with the peer's address",
    arguments: IOLoop.PollerKind.allCases)
  func accepts(_ kind: IOLoop.PollerKind) throws {
    let host = try Host(.tcp(host: "127.0.0.1", port: 0), kind, loops: 2)
    let clients = try (0..<20).map { _ in try RawClient(port: host.port) }
    let peers = host.peers.wait(for: clients.count)
    #expect(peers.allSatisfy { $0.ipAddress == IPAddress("127.0.0.1") && $0.port != 0 })
  }

  @Test("a connection is accepted after the first 64 of many ready descriptors")
  func crowd() throws {
    let host = try Host(.tcp(host: "127.0.0.1", port: 0), .epoll)
    let loop = try #require(host.loops.first)
    let pairs = try (0..<300).map { _ in try Pair(on: loop) }
    let witness = Witness(host.peers)
    loop.loop.performAndWait { for pair in pairs { pair.channel.watch(until: .never, witness) } }
    let client = try loop.whileBusy {
      for pair in pairs { pair.poke() }
      return try RawClient(port: host.port)
    }
    // The poller reports descriptors in the order in which they became ready, the listener last.
    #expect(witness.peers.wait(for: pairs.count).filter { $0 == 0 }.count <= 64)
    withExtendedLifetime(client) {}
  }

  @Test("a connection is accepted after 16 of many ready channels of the last rank")
  func lastRank() throws {
    let host = try Host(.tcp(host: "127.0.0.1", port: 0), .epoll)
    let loop = try #require(host.loops.first)
    // The listener is ready only after the poller has looked at it, which is before the lower ranks.
    let pairs = try (0..<64).map { _ in try Pair(on: loop) }
    let clients = Clients(port: host.port)
    let witness = Witness(host.peers, atFirst: clients.connect)
    loop.loop.performAndWait {
      for pair in pairs {
        pair.channel.rank = .last
        pair.channel.watch(until: .never, witness)
      }
    }
    loop.whileBusy { for pair in pairs { pair.poke() } }
    #expect(witness.peers.wait(for: pairs.count).filter { $0 == 0 }.count == 16)
  }

  /// Clients that connect during the test.
  private final class Clients: @unchecked Sendable {
    // Sendable by confinement to the loop.
    private let port: UInt16
    private var clients: [RawClient] = []

    init(port: UInt16) { self.port = port }

    func connect() {
      if let client = try? RawClient(port: port) { clients.append(client) }
    }
  }

  /// Notes how many connections were accepted before each ready descriptor.
  private final class Witness: ChannelDelegate, Sendable {
    let peers = Notes<Int>()
    private let accepted: Notes<SocketAddress>
    private let atFirst: @Sendable () -> Void

    init(_ accepted: Notes<SocketAddress>, atFirst: @escaping @Sendable () -> Void = {}) {
      self.accepted = accepted
      self.atFirst = atFirst
    }

    func channel(_ channel: Channel, became readiness: Readiness) {
      if peers.all.isEmpty { atFirst() }
      peers.add(accepted.all.count)
    }
  }

  @Test("the host * means IPv6 and IPv4 on the same port", arguments: IOLoop.PollerKind.allCases)
  func anyHost(_ kind: IOLoop.PollerKind) throws {
    let host = try Host(.tcp(host: "*", port: 0), kind, loops: 2)
    #expect(Set(host.addresses.map(\.port)).count == 1)
    let v4 = try RawClient(port: host.port)
    let v4Peer = host.peers.wait(for: 1)[0]
    #expect(v4Peer.ipAddress?.isIPv4 == true)
    #expect(v4.descriptor >= 0)
    guard host.addresses.count == 2 else { return }  // a machine without IPv6
    let v6 = try RawClient(port: host.port, host: "::1")
    #expect(host.peers.wait(for: 2)[1].ipAddress == IPAddress("::1"))
    #expect(v6.descriptor >= 0)
  }

  @Test("a listener on * finds a port that is free for both families")
  func anyHostAgain() throws {
    // About one in fourteen of the ports that the system picks from.
    let taken = (0..<2000).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0) }
    defer { for descriptor in taken { close(descriptor) } }
    var any = sockaddr_in()
    any.sin_family = sa_family_t(AF_INET)
    for descriptor in taken {
      _ = unsafe withUnsafePointer(to: &any) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
    }
    for _ in 0..<200 {
      let listeners = try Listener.open(.tcp(host: "*", port: 0), loops: 1)
      #expect(Set(listeners.joined().map(\.address.port)).count == 1)
    }
  }

  // No resolver has a name below localhost, unless it knows RFC 6761 §6.3.
  @Test(
    "the host localhost means both loopback addresses on the same port, whatever a resolver knows",
    arguments: ["localhost", "a.localhost"])
  func name(_ host: String) throws {
    let listeners = try Listener.open(.tcp(host: host, port: 0), loops: 2)
    #expect(Set(listeners.joined().map(\.address.port)).count == 1)
    // A machine may have no IPv6.
    let hosts = listeners.compactMap { $0.first?.address.ipAddress?.description }
    #expect(hosts == ["127.0.0.1", "::1"] || hosts == ["127.0.0.1"])
  }

  @Test("a listener skips addresses of a name that the machine lacks, and fails if none is left")
  func partial() throws {
    let missing = SocketAddress.ip(try #require(IPAddress("192.0.2.1")), port: 0)
    let loopback = SocketAddress.ip(try #require(IPAddress("127.0.0.1")), port: 0)
    #expect(try Listener.openTCP([missing, loopback], .init(loops: 2)).count == 1)
    #expect(throws: SocketError(call: "bind", code: EADDRNOTAVAIL)) { try Listener.openTCP([missing], .init(loops: 1)) }
  }

  @Test("the error for an address in use names the address and a remedy", arguments: [1, 2], [1, 2])
  func inUse(first: Int, second: Int) throws {
    let listeners = try Listener.open(.tcp(host: "127.0.0.1", port: 0), loops: first)
    let port = try #require(listeners.first?.first?.address.port)
    let error = #expect(throws: ListenError.self) {
      try Listener.open(.tcp(host: "127.0.0.1", port: port), loops: second)
    }
    #expect(
      error?.description == "Cannot listen on 127.0.0.1:\(port): another program listens there already; stop it, "
        + "or choose another address or port.")
  }

  @Test("a second listener may bind only if both processes allow it", arguments: [1, 2], [1, 2])
  func successor(first: Int, second: Int) throws {
    for (old, new) in [(true, true), (true, false), (false, true)] {
      let listeners = try Listener.open(.tcp(host: "127.0.0.1", port: 0), loops: first, reusesPort: old)
      let port = try #require(listeners.first?.first?.address.port)
      let endpoint = Endpoint.tcp(host: "127.0.0.1", port: port)
      if old && new {
        #expect(try Listener.open(endpoint, loops: second, reusesPort: new).count == 1)
      } else if first == 1 || !new {
        #expect(throws: ListenError.self) { try Listener.open(endpoint, loops: second, reusesPort: new) }
      }
    }
  }

  @Test(
    "the error for an endpoint that cannot be opened gives the reason in a sentence",
    arguments: [
      (Endpoint.tcp(host: "192.0.2.1", port: 0), "Cannot listen on 192.0.2.1:0: this machine has no such address."),
      (.unix(path: String(repeating: "a", count: 108)), "the path is too long for a Unix-domain socket"),
      (.unix(path: "/nowhere/at/all.sock"), "No such file or directory"),
      (.tcp(host: "no.such.name.invalid", port: 0), "the name no.such.name.invalid does not resolve"),
    ])
  func refused(endpoint: Endpoint, sentence: String) {
    let error = #expect(throws: ListenError.self) { try Listener.open(endpoint, loops: 1) }
    #expect(error?.description.contains(sentence) == true, "\(String(describing: error))")
  }

  @Test(
    "the error for an endpoint that this user may not use gives the reason and a remedy",
    arguments: [
      (
        Endpoint.tcp(host: "0.0.0.0", port: 80),
        "the system lets only privileged users listen on ports below 1024; choose a port from 1024 to 65535, or give "
          + "the program the capability CAP_NET_BIND_SERVICE"
      ),
      (
        .tcp(host: "0.0.0.0", port: 8080),
        "the system does not permit this user to listen there; choose another address or port"
      ),
      (
        .unix(path: "/run/server.sock"),
        "this user may not create a file in that folder; choose a folder that the user may write to, or change the "
          + "folder's permissions"
      ),
    ])
  func forbidden(endpoint: Endpoint, reason: String) {
    #expect(Listener.advice(for: SocketError(call: "bind", code: EACCES), endpoint) == reason)
  }

  @Test(
    "a Unix-domain socket has mode 0660, and a drain removes its file", arguments: IOLoop.PollerKind.allCases)
  func unix(_ kind: IOLoop.PollerKind) throws {
    let directory = try TemporaryDirectory()
    let path = directory.path(of: "server.sock")
    let host = try Host(.unix(path: path), kind, loops: 2)
    var status = stat()
    #expect(unsafe stat(path, &status) == 0)
    #expect(status.st_mode & 0o777 == 0o660)
    let clients = try (0..<20).map { _ in try RawClient(path: path) }
    #expect(host.peers.wait(for: clients.count).allSatisfy { $0 == .unix(path: "") })
    host.drain()
    #expect(unsafe stat(path, &status) != 0)
  }

  @Test("a listener replaces a socket file that no process uses")
  func leftOver() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path(of: "server.sock")
    for _ in 0..<3 { _ = try Listener.open(.unix(path: path), loops: 2) }
    let host = try Host(.unix(path: path), .poll)
    let client = try RawClient(path: path)
    host.peers.wait(for: 1)
    withExtendedLifetime(client) {}
  }

  @Test("a listener leaves a socket in use alone")
  func alive() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path(of: "server.sock")
    let host = try Host(.unix(path: path), .poll)
    let error = #expect(throws: ListenError.self) { try Listener.open(.unix(path: path), loops: 1) }
    #expect(error?.reason.hasPrefix("another program listens there already") == true)
    let client = try RawClient(path: path)
    // The first peer is the probe of the second listener, which has closed already.
    host.peers.wait(for: 2)
    #expect(client.descriptor >= 0)
  }

  @Test(
    "any other file at the path of a Unix-domain socket stays, and the error names its kind", .otherPrograms,
    arguments: [
      ("echo precious > \"$0\"", "a regular file"), ("mkdir \"$0\"", "a directory"), ("mkfifo \"$0\"", "a FIFO"),
      ("ln -s nowhere \"$0\"", "a symbolic link to nothing"), ("ln -s / \"$0\"", "a symbolic link"),
    ])
  func otherFile(command: String, kind: String) throws {
    let directory = try TemporaryDirectory()
    let path = directory.path(of: "server.sock")
    #expect(try run("sh", ["-c", command, path]).status == 0)
    let before = try run("stat", ["-c", "%F %i", path]).stdout
    let error = #expect(throws: ListenError.self) { try Listener.open(.unix(path: path), loops: 1) }
    #expect(error?.reason == "there is \(kind) at this path; remove it, or choose another path")
    #expect(try run("stat", ["-c", "%F %i", path]).stdout == before)
  }

  @Test(
    "a drain removes only the socket file that its own listener bound", .otherPrograms,
    arguments: ["echo precious > \"$0\"", "ln -s / \"$0\"", "successor"])
  func foreignFile(command: String) throws {
    let directory = try TemporaryDirectory()
    let path = directory.path(of: "server.sock")
    let host = try Host(.unix(path: path), .poll, loops: 2)
    unsafe unlink(path)
    var successor: Host?
    if command == "successor" {
      successor = try Host(.unix(path: path), .poll)
    } else {
      #expect(try run("sh", ["-c", command, path]).status == 0)
    }
    let before = try run("stat", ["-c", "%F %i", path]).stdout
    host.drain()
    #expect(try run("stat", ["-c", "%F %i", path]).stdout == before)
    withExtendedLifetime(successor) {}
  }

  @Test("a closing listener accepts all waiting connections", arguments: IOLoop.PollerKind.allCases)
  func drain(_ kind: IOLoop.PollerKind) throws {
    let host = try Host(.tcp(host: "127.0.0.1", port: 0), kind, loops: 2)
    // Far more than are accepted in one pass, while the loops are kept from accepting.
    let released = Notes<Bool>()
    for loop in host.loops { loop.loop.post { released.wait(for: 1) } }
    let clients = try (0..<500).map { _ in try RawClient(port: host.port) }
    for (loop, listener) in host.pairs { loop.loop.post { listener.refuseConnectionRequests() } }
    for (loop, listener) in host.pairs { loop.loop.post { listener.acceptRestAndClose() } }
    for _ in host.loops { released.add(true) }
    host.peers.wait(for: clients.count)
    #expect(throws: TestFailure.self) { try RawClient(port: host.port) }
  }

  @Test("a listener without an owner closes the connections that it accepts", arguments: IOLoop.PollerKind.allCases)
  func orphan(_ kind: IOLoop.PollerKind) throws {
    let host = try Host(.tcp(host: "127.0.0.1", port: 0), kind)
    host.forgetOwner()
    let client = try RawClient(port: host.port)
    #expect(try client.rest().isEmpty)
  }

  @Test(
    "at the descriptor limit, accepting pauses without spinning and then continues",
    arguments: IOLoop.PollerKind.allCases)
  func descriptorLimit(_ kind: IOLoop.PollerKind) async {
    switch kind {
    case .epoll: await #expect(processExitsWith: .success) { try DescriptorLimit.run(.epoll) }
    case .poll: await #expect(processExitsWith: .success) { try DescriptorLimit.run(.poll) }
    }
  }
}

/// A listener when the system has no descriptors left, in its own process to protect other tests.
private enum DescriptorLimit {
  static func run(_ kind: IOLoop.PollerKind) throws {
    var limit = rlimit(rlim_cur: 256, rlim_max: 256)
    try require(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, "limit")
    let host = try Host(.tcp(host: "127.0.0.1", port: 0), kind)
    let served = try RawClient(port: host.port)
    host.peers.wait(for: 1)
    let waiting = try RawClient(port: host.port)
    host.peers.wait(for: 2)
    // Only the loop's thread runs out of descriptors, in a table of its own: libdispatch ends a process in which it cannot
    // open the `stat` of a thread.
    var spare: [Int32] = try host.loops[0].get {
      guard Self.unshareDescriptors() else { return [] }
      var spare: [Int32] = []
      while case let descriptor = dup(0), descriptor >= 0 { spare.append(descriptor) }
      return spare
    }
    try require(!spare.isEmpty, "no table of descriptors")
    let queued = try RawClient(port: host.port)
    let before = host.loops[0].loop
    host.pauses.wait(for: 1)
    let turns = try host.loops[0].get { before.turns }
    host.pauses.wait(for: 3)
    try require(try host.loops[0].get { before.turns } - turns < 20, "spins")
    try require(host.peers.all.count == 2, "accepts")
    try require(host.pauses.all.allSatisfy { $0.code == EMFILE }, "another error")
    let last = spare.removeLast()
    _ = try host.loops[0].get { close(last) }
    host.peers.wait(for: 3)
    for client in [served, waiting, queued] { try client.send("a") }
    // No other thread may close what the loop's thread has accepted.
    exit(EXIT_SUCCESS)
  }

  /// Gives the calling thread a copy of the process's table of descriptors. Returns whether it has one.
  private static func unshareDescriptors() -> Bool {
    // The header declares unshare(2) only for GNU's C.
    guard let function = unsafe dlsym(nil, "unshare") else { return false }
    let cloneFiles: Int32 = 0x400
    return unsafe unsafeBitCast(function, to: (@convention(c) (Int32) -> Int32).self)(cloneFiles) == 0
  }

  private static func require(_ condition: Bool, _ what: String) throws {
    guard condition else { throw TestFailure(what) }
  }
}

/// A process that listens and keeps the accepted connections.
private final class Host: Sendable {
  let loops: [TestLoop]
  let addresses: [SocketAddress]
  let pairs: [(TestLoop, Listener)]
  private let owner: Owner

  var peers: Notes<SocketAddress> { owner.peers }
  var pauses: Notes<SocketError> { owner.pauses }
  var port: UInt16 { addresses.first?.port ?? 0 }

  init(_ endpoint: Endpoint, _ kind: IOLoop.PollerKind, loops count: Int = 1) throws {
    let loops = try (0..<count).map { _ in try IOLoop.forTest(kind) }
    let listeners = try Listener.open(endpoint, loops: count)
    let owner = Owner()
    addresses = listeners.compactMap(\.first?.address)
    pairs = listeners.flatMap { zip(loops, $0) }
    self.loops = loops
    self.owner = owner
    for (loop, listener) in pairs { loop.loop.performAndWait { listener.start(on: loop.loop, for: owner.proxy) } }
  }

  func drain() {
    for (loop, listener) in pairs { loop.loop.performAndWait { listener.refuseConnectionRequests() } }
    for (loop, listener) in pairs { loop.loop.performAndWait { listener.acceptRestAndClose() } }
  }

  func forgetOwner() { owner.forgetProxy() }

  private final class Owner: @unchecked Sendable {
    // Sendable: `Notes` is thread-safe, and only the test's thread changes `proxy`.
    let peers = Notes<SocketAddress>()
    let pauses = Notes<SocketError>()
    private var kept: Proxy?

    init() { kept = Proxy(peers, pauses) }

    var proxy: Proxy { kept ?? Proxy(peers, pauses) }

    func forgetProxy() { kept = nil }
  }

  /// The owner of the listener, which the listener does not retain.
  final class Proxy: Listener.Owner {
    private let peers: Notes<SocketAddress>
    private let pauses: Notes<SocketError>
    private let channels = Locked<[Descriptor.Kept]>([])

    init(_ peers: Notes<SocketAddress>, _ pauses: Notes<SocketError>) { (self.peers, self.pauses) = (peers, pauses) }

    func listener(_ listener: Listener, accepted descriptor: consuming Descriptor, from peer: SocketAddress) {
      let kept = Descriptor.Kept(descriptor)
      channels.withLock { $0.append(kept) }
      peers.add(peer)
    }

    func listener(_ listener: Listener, cannotAccept error: SocketError) -> Bool {
      pauses.add(error)
      return false
    }

    func listener(_ listener: Listener, isCrowded: Bool) {}
  }
}

extension Descriptor {
  /// A reference to a descriptor, for use in an array.
  fileprivate final class Kept: Sendable {
    private let descriptor: Descriptor

    init(_ descriptor: consuming Descriptor) { self.descriptor = descriptor }
  }
}
