import CPlatform
import Dispatch
import Glibc
import TestSupport
import Testing

@testable import EventLoop

@Suite("A connector")
struct ConnectorTests {
  @Test("alternates address families, tries each address once and limits the number of addresses")
  func order() {
    var order = AddressOrder()
    let six = (1...20).map { SocketAddress.ip(IPAddress(bits: 1 << 100 + $0), port: 1) }
    let four = (1...3).map { SocketAddress.ip(IPAddress(bits: 0xffff_c000_0200 + $0), port: 1) }
    order.add([six[0], six[1], six[0], four[0], four[1]])
    #expect(order.next() == six[0])
    #expect(order.next() == four[0])
    order.add([four[0], six[2]])
    #expect(order.next() == six[1])
    #expect(order.next() == four[1])
    order.add(six + four)
    var rest: [SocketAddress] = []
    while let address = order.next() { rest.append(address) }
    #expect(rest.count == AddressOrder.maximum - 4)
    #expect(order.isEmpty)
  }

  @Test("connects to a name, an IPv4 address and an IPv6 address", arguments: ["localhost", "127.0.0.1", "::1"])
  func connects(host: String) throws {
    let peer = try Peer(host == "::1" ? .v6 : .v4)
    #expect(try Attempt(to: host, port: peer.port).connects())
  }

  @Test(
    "connects to localhost and the names below it without a look-up",
    arguments: ["localhost", "app.localhost"], [Peer.Family.v4, .v6])
  func loopback(host: String, family: Peer.Family) throws {
    let peer = try Peer(family)
    let loop = try IOLoop.forTest(.epoll)
    let resolver = NameResolver(loop: loop.loop) { _, _ throws(ResolutionError) in
      throw ResolutionError(reason: "there is no resolver")
    }
    #expect(Attempt(on: loop, resolver, to: host, port: peer.port).connects())
  }

  @Test("tries the next address immediately after a refusal, and reports the last refusal")
  func refused() throws {
    let peer = try Peer(.v4)
    let closed = try Peer(.v6)
    closed.close()
    let found = [closed.address, peer.address]
    #expect(try Attempt(to: "a.example", lookUp: { _, _ in found }).connects())
    peer.close()
    let error = try Attempt(to: "a.example", lookUp: { _, _ in found }).failure()
    #expect(error?.cause == .refused)
    #expect(error?.description.contains("a.example") == true)
    #expect(error?.description.contains("\(peer.address): connect: Connection refused") == true)
  }

  @Test("tries another address when one does not answer, and closes the losing channel")
  func hangs() throws {
    let deaf = try Peer(.v4, isDeaf: true)
    let peer = try Peer(.v6)
    let attempt = try Attempt(to: "a.example", lookUp: { _, _ in [deaf.address, peer.address] })
    #expect(attempt.connects())
    #expect(try attempt.openChannels == 1, "the winner's")
  }

  @Test("gives up at its deadline", arguments: [true, false])
  func deadline(isResolved: Bool) throws {
    let deaf = try Peer(.v4, isDeaf: true)
    let gate = DispatchSemaphore(value: 0)
    let attempt = try Attempt(to: "a.example", patience: .milliseconds(300)) { _, _ in
      if !isResolved { gate.wait(for: "the test's permission to resolve the name") }
      return [deaf.address]
    }
    let error = attempt.failure()
    gate.signal()
    #expect(error?.cause == (isResolved ? .timedOut : .resolverTimedOut))
    #expect(try attempt.openChannels == 0)
  }

  @Test("reports why a name does not resolve")
  func unknown() throws {
    let attempt = try Attempt(to: "a.example") { _, _ throws(ResolutionError) in
      throw ResolutionError(reason: "nobody knows it")
    }
    let error = attempt.failure()
    #expect(error == ConnectError(.unknownHost, "No connection to a.example: nobody knows it."))
  }

  @Test("uses remembered addresses during a look-up, and learns a new address from the look-up")
  func remembers() throws {
    let (old, new) = (try Peer(.v4), try Peer(.v4))
    let gate = DispatchSemaphore(value: 0)
    let responses = Notes<Int>()
    let loop = try IOLoop.forTest(.epoll)
    let resolver = NameResolver(loop: loop.loop) { _, _ in
      responses.add(1)
      if responses.all.count == 1 { return [old.address] }
      gate.wait(for: "the test's permission to resolve the name")
      return [new.address]
    }
    #expect(Attempt(on: loop, resolver, to: "a.example").connects())
    loop.loop.performAndWait { resolver.age(by: Connector.freshness) }
    #expect(Attempt(on: loop, resolver, to: "a.example").connects(), "the look-up hangs")
    old.close()
    loop.loop.performAndWait { resolver.age(by: Connector.freshness) }
    let attempt = Attempt(on: loop, resolver, to: "a.example")
    gate.signal()
    #expect(attempt.connects())
  }

  @Test("uses an expired address when the name cannot be looked up", arguments: [true, false])
  func stale(resolverHangs: Bool) throws {
    let peer = try Peer(.v4)
    let gate = DispatchSemaphore(value: 0)
    let responses = Notes<Int>()
    let loop = try IOLoop.forTest(.epoll)
    let resolver = NameResolver(loop: loop.loop) { _, _ throws(ResolutionError) in
      responses.add(1)
      if responses.all.count == 1 { return [peer.address] }
      if resolverHangs { gate.wait(for: "the test's permission to resolve the name") }
      throw ResolutionError(reason: "the resolver is gone")
    }
    #expect(Attempt(on: loop, resolver, to: "a.example").connects())
    loop.loop.performAndWait { resolver.age(by: Connector.lifetime) }
    #expect(Attempt(on: loop, resolver, to: "a.example").connects())
    gate.signal()
  }

  @Test("shares a look-up in progress")
  func shared() throws {
    let peer = try Peer(.v4)
    let gate = DispatchSemaphore(value: 0)
    let responses = Notes<Int>()
    let loop = try IOLoop.forTest(.epoll)
    let resolver = NameResolver(loop: loop.loop) { _, _ in
      responses.add(1)
      gate.wait(for: "the test's permission to resolve the name")
      return [peer.address]
    }
    let attempts = (0..<3).map { _ in Attempt(on: loop, resolver, to: "a.example") }
    responses.wait(for: 1)
    loop.loop.performAndWait {}
    gate.signal()
    for attempt in attempts { #expect(attempt.connects()) }
    #expect(responses.all.count == 1)
  }

  @Test("reports nothing after it is cancelled")
  func cancelled() throws {
    let deaf = try Peer(.v4, isDeaf: true)
    let attempt = try Attempt(to: "127.0.0.1", port: deaf.port)
    attempt.cancel()
    #expect(try attempt.openChannels == 0)
    #expect(attempt.outcomes.all.isEmpty)
  }
}

extension NameResolver {
  /// Makes remembered addresses older by `duration`.
  fileprivate func age(by duration: Duration) {
    let age = Deadline(nanoseconds: 0).advanced(by: duration).nanoseconds
    memories = memories.mapValues {
      Memory(addresses: $0.addresses, found: Deadline(nanoseconds: $0.found.nanoseconds - age))
    }
  }
}

/// One connector on a loop, and the outcomes that it reported.
final class Attempt: @unchecked Sendable {
  // Sendable: `connector` and `channel` are used on the loop only.
  let outcomes = Notes<Result<Bool, ConnectError>>()
  private let loop: TestLoop
  private var connector: Connector?
  private var channel: Channel?

  init(
    on loop: TestLoop, _ resolver: NameResolver, to host: String, port: UInt16 = 1, patience: Duration = .seconds(60)
  ) {
    self.loop = loop
    loop.loop.performAndWait { [self] in
      // A connection stays open without a deadline, so that the test can inspect it.
      loop.loop.deadlineCount.isFatal = false
      connector = Connector(
        to: host, port: port, loop: loop.loop, resolver: resolver, until: Deadline.now.advanced(by: patience)
      ) { outcome in
        if case .success(let channel) = outcome { self.channel = channel }
        self.outcomes.add(outcome.map { _ in true })
      }
    }
  }

  convenience init(to host: String, port: UInt16) throws {
    let loop = try IOLoop.forTest(.epoll)
    self.init(on: loop, NameResolver(loop: loop.loop), to: host, port: port)
  }

  convenience init(
    to host: String, patience: Duration = .seconds(60), lookUp: @escaping NameResolver.LookUp
  ) throws {
    let loop = try IOLoop.forTest(.epoll)
    self.init(on: loop, NameResolver(loop: loop.loop, lookUp: lookUp), to: host, patience: patience)
  }

  func connects() -> Bool { failure() == nil }

  func failure() -> ConnectError? {
    guard case .failure(let error) = outcomes.wait(for: 1).first else { return nil }
    return error
  }

  func cancel() {
    loop.loop.performAndWait { self.connector?.cancel() }
  }

  /// The number of channels of the loop.
  var openChannels: Int {
    get throws { try loop.get { self.loop.loop.channelCount } }
  }
}

/// A listening socket on loopback.
final class Peer: Sendable {
  enum Family: Sendable { case v4, v6 }

  let address: SocketAddress
  private let descriptor: Int32
  private let fillers: [Int32]

  var port: UInt16 { address.port ?? 0 }

  /// - Parameter isDeaf: Whether it ignores connection requests because its queue is full.
  init(_ family: Family, isDeaf: Bool = false) throws {
    let host = family == .v4 ? "127.0.0.1" : "::1"
    guard let ip = IPAddress(host) else { throw TestFailure("\(host) is no address.") }
    let any = SocketAddress.ip(ip, port: 0)
    let raw = socket(any.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard unsafe try any.withSocketAddress({ unsafe bind(raw, $0, $1) }) == 0, listen(raw, isDeaf ? 0 : 64) == 0 else {
      throw TestFailure("There is no listener on \(host).")
    }
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        _ = unsafe getsockname(raw, address, &length)
      }
    }
    let address = SocketAddress(storage)
    self.address = address
    descriptor = raw
    fillers = isDeaf ? try (0..<3).map { _ in try Self.knock(at: address) } : []
  }

  deinit {
    close()
    for filler in fillers { Glibc.close(filler) }
  }

  /// Refuses connections from now on.
  func close() {
    shutdown(descriptor, Int32(SHUT_RDWR))
  }

  private static func knock(at address: SocketAddress) throws -> Int32 {
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let raw = socket(address.family, type, 0)
    _ = unsafe try address.withSocketAddress { unsafe connect(raw, $0, $1) }
    return raw
  }
}
