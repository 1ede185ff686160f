import CPlatform
import Glibc
import Locks

/// Finds addresses for names without holding up its event loop, and remembers them for a while.
///
/// The system's resolver blocks, so each look-up has a thread of its own. Concurrent requests for the same name share
/// one look-up, so a resolver that hangs blocks one thread for each name.
///
/// Confined to its loop. Only `init` may run elsewhere.
public final class NameResolver: @unchecked Sendable {
  // Sendable by confinement: what another thread finds out comes back by `loop.post`.

  /// How a name is looked up, on a thread that may block.
  public typealias LookUp = @Sendable (_ host: String, _ port: UInt16) throws(ResolutionError) -> [SocketAddress]

  /// What a look-up found.
  public typealias Outcome = Result<[SocketAddress], ResolutionError>

  /// Addresses that a look-up found earlier.
  struct Memory {
    let addresses: [SocketAddress]
    /// When they were found.
    let found: Deadline
    /// Whether none of them led anywhere the last time.
    var isDoubtful = false
  }

  struct Name: Hashable {
    let host: String
    let port: UInt16
  }

  private let loop: IOLoop
  private let lookUp: LookUp
  var memories: [Name: Memory] = [:]
  private var waiting: [Name: [(Outcome) -> Void]] = [:]

  /// A resolver for `loop`, which asks the system.
  public convenience init(loop: IOLoop) {
    self.init(loop: loop) { host, port throws(ResolutionError) in try resolve(host, port: port) }
  }

  /// A resolver for `loop` with a way of its own to look up names.
  public init(loop: IOLoop, lookUp: @escaping LookUp) {
    self.loop = loop
    self.lookUp = lookUp
  }

  /// What is remembered of a name.
  func memory(of host: String, port: UInt16) -> Memory? {
    loop.assertCurrent()
    return memories[Name(host: host, port: port)]
  }

  /// Notes that no address of a name leads anywhere: it is to be looked up before those are tried again.
  func doubt(_ host: String, port: UInt16) {
    loop.assertCurrent()
    memories[Name(host: host, port: port)]?.isDoubtful = true
  }

  /// Looks a name up and tells `completion` on the loop, later; a failure leaves what is remembered as it is.
  func find(_ host: String, port: UInt16, _ completion: @escaping (Outcome) -> Void) {
    loop.assertCurrent()
    let name = Name(host: host, port: port)
    let isUnderWay = waiting[name] != nil
    waiting[name, default: []].append(completion)
    guard !isUnderWay else { return }
    let (loop, lookUp) = (loop, lookUp)
    do throws(Thread.Refused) {
      _ = try Thread {
        let outcome = Outcome { () throws(ResolutionError) in try lookUp(host, port) }
        loop.post { self.finish(name, outcome) }
      }
    } catch {
      let error = ResolutionError(reason: "the system grants no thread to look up \(host)")
      loop.post { self.finish(name, .failure(error)) }
    }
  }

  private func finish(_ name: Name, _ outcome: Outcome) {
    loop.assertCurrent()
    if case .success(let addresses) = outcome { memories[name] = Memory(addresses: addresses, found: loop.now) }
    for tell in waiting.removeValue(forKey: name) ?? [] { tell(outcome) }
  }
}

/// A name did not resolve.
public struct ResolutionError: Error, Sendable, Equatable {
  /// Which name, and why, in the words of the system's resolver.
  public let reason: String

  /// An error with a reason.
  public init(reason: String) { self.reason = reason }
}

/// The TCP addresses that `host`, a name or an address, stands for. Blocks: not for an event loop's thread, but at start.
func resolve(_ host: String, port: UInt16) throws(ResolutionError) -> [SocketAddress] {
  var hints = unsafe addrinfo()
  unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
  unsafe hints.ai_flags = AI_NUMERICSERV
  var list: UnsafeMutablePointer<addrinfo>?
  let status = unsafe getaddrinfo(host, "\(port)", &hints, &list)
  guard status == 0 else {
    throw ResolutionError(reason: "the name \(host) does not resolve (\(unsafe String(cString: gai_strerror(status))))")
  }
  defer { unsafe freeaddrinfo(list) }
  var addresses: [SocketAddress] = []
  var next = unsafe list
  while let entry = unsafe next {
    if let address = unsafe SocketAddress(entry.pointee), !addresses.contains(address) { addresses.append(address) }
    unsafe next = entry.pointee.ai_next
  }
  return addresses
}

extension SocketAddress {
  fileprivate init?(_ entry: addrinfo) {
    guard let address = unsafe entry.ai_addr else { return nil }
    var storage = sockaddr_storage()
    unsafe withUnsafeMutableBytes(of: &storage) { room in
      let bytes = unsafe UnsafeRawBufferPointer(start: address, count: min(Int(entry.ai_addrlen), room.count))
      unsafe room.copyMemory(from: bytes)
    }
    self.init(storage)
  }
}

/// In which order a host's addresses are tried (RFC 8305 §4): families in turn, beginning with the resolver's choice, so
/// that a family that leads nowhere holds up nothing for long.
struct AddressOrder {
  /// More addresses than a connection needs: a bound on what a name can cost.
  static let maximum = 16

  private var known: Set<SocketAddress> = []
  private var waiting: [SocketAddress] = []
  private var last: SocketAddress.Family?

  /// Whether there are any left to try.
  var isEmpty: Bool { waiting.isEmpty }

  /// Adds addresses in the resolver's order, but those that were there before.
  mutating func add(_ addresses: [SocketAddress]) {
    for address in addresses where known.count < Self.maximum && known.insert(address).inserted {
      waiting.append(address)
    }
  }

  /// Takes the next one out: of the other family than the last one's, if there is one.
  mutating func next() -> SocketAddress? {
    guard !waiting.isEmpty else { return nil }
    let index = waiting.firstIndex { $0.ipFamily != last } ?? 0
    let address = waiting.remove(at: index)
    last = address.ipFamily
    return address
  }
}

extension SocketAddress {
  fileprivate var ipFamily: Family? {
    guard case .ip(_, _, let family) = self else { return nil }
    return family
  }
}
