import CPlatform
import Glibc
import Locks

/// A resolver that finds the addresses of names without blocking its event loop, and caches them.
///
/// The system's resolver blocks, so each look-up has a thread, which concurrent requests for the same name share.
public final class NameResolver: @unchecked Sendable {
  // Sendable by confinement to its loop, except `init`: another thread returns its result by `loop.post`.
  /// A function that looks up a name, on a thread that may block.
  public typealias LookUp = @Sendable (_ host: String, _ port: UInt16) throws(ResolutionError) -> [SocketAddress]
  typealias Resolution = Result<[SocketAddress], ResolutionError>

  struct Memory {
    let addresses: [SocketAddress]
    let found: Deadline
    /// Whether no connection to any of them succeeded the last time.
    var isDoubtful = false
  }

  struct Name: Hashable {
    let host: String
    let port: UInt16
  }

  private let loop: IOLoop
  private let lookUp: LookUp
  var memories: [Name: Memory] = [:]
  private var waiting: [Name: [(Resolution) -> Void]] = [:]

  /// Creates a resolver for `loop`, by default with the system's resolver.
  public init(loop: IOLoop, lookUp: LookUp? = nil) {
    self.loop = loop
    let ofSystem: LookUp = { host, port throws(ResolutionError) in try resolve(host, port: port) }
    self.lookUp = lookUp ?? ofSystem
  }

  func memory(of host: String, port: UInt16) -> Memory? { memories[Name(host: host, port: port)] }

  /// Lets the next connection look the name up before it tries the addresses, because none could be connected to.
  func doubt(_ host: String, port: UInt16) { memories[Name(host: host, port: port)]?.isDoubtful = true }

  /// Looks a name up and later calls `completion` on the loop. A failure leaves the cached addresses unchanged.
  func find(_ host: String, port: UInt16, _ completion: @escaping (Resolution) -> Void) {
    loop.assertCurrent()
    let name = Name(host: host, port: port)
    let isUnderWay = waiting[name] != nil
    waiting[name, default: []].append(completion)
    guard !isUnderWay else { return }
    let (loop, lookUp) = (loop, lookUp)
    do throws(Thread.Refused) {
      _ = try Thread {
        let outcome = Resolution { () throws(ResolutionError) in try lookUp(host, port) }
        loop.post { self.finish(name, outcome) }
      }
    } catch {
      let error = ResolutionError(reason: "the system grants no thread to resolve \(host)")
      loop.post { self.finish(name, .failure(error)) }
    }
  }

  private func finish(_ name: Name, _ outcome: Resolution) {
    if case .success(let addresses) = outcome { memories[name] = Memory(addresses: addresses, found: loop.now) }
    for tell in waiting.removeValue(forKey: name) ?? [] { tell(outcome) }
  }
}

/// The error when a name does not resolve.
public struct ResolutionError: Error, Sendable, Equatable {
  /// The name and the reason, as the system's resolver words it.
  public let reason: String

  /// Creates an error with a reason.
  public init(reason: String) { self.reason = reason }
}

/// Returns the TCP addresses of `host`, a name or an address. Blocks, so do not call it on an event loop.
func resolve(_ host: String, port: UInt16) throws(ResolutionError) -> [SocketAddress] {
  if let addresses = SocketAddress.loopback(named: host, port: port) { return addresses }
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
  /// Returns the loopback addresses if `host` is `localhost` or a name below it, else nil.
  ///
  /// No resolver is asked for these names (RFC 6761 §6.3): they work on a system without `/etc/hosts`, and no name
  /// server can send the program to another machine.
  static func loopback(named host: String, port: UInt16) -> [SocketAddress]? {
    var name = host.utf8[...]
    if name.last == UInt8(ascii: ".") { name.removeLast() }  // the dot of the root
    let localhost = "localhost".utf8
    // The bit makes a capital letter a small one, and no other byte a letter.
    guard name.suffix(localhost.count).elementsEqual(localhost, by: { $0 | 0x20 == $1 }) else { return nil }
    let parent = name.dropLast(localhost.count)
    guard parent.isEmpty || parent.count > 1 && parent.last == UInt8(ascii: ".") else { return nil }
    return [.ip(IPAddress(v4: 0x7f00_0001), port: port), .ip(IPAddress(bits: 1), port: port)]
  }

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

/// The order of connection attempts to a host's addresses (RFC 8305 §4). Address families alternate from the resolver's
/// first address on, so that an unreachable family delays the connection only a little.
struct AddressOrder {
  /// The most addresses of a name, which is more than a connection needs.
  static let maximum = 16
  private var known: Set<SocketAddress> = []
  private var waiting: [SocketAddress] = []
  /// The family of the previous address.
  private var last: Int32?

  var isEmpty: Bool { waiting.isEmpty }

  /// Adds addresses in the resolver's order, except those that were added before.
  mutating func add(_ addresses: [SocketAddress]) {
    for address in addresses where known.count < Self.maximum && known.insert(address).inserted {
      waiting.append(address)
    }
  }

  /// Removes the next address, preferably of the other family than the previous one.
  mutating func next() -> SocketAddress? {
    guard !waiting.isEmpty else { return nil }
    let address = waiting.remove(at: waiting.firstIndex { $0.family != last } ?? 0)
    last = address.family
    return address
  }
}
