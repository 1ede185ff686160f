import Dispatch
import EventLoop
import Locks
import Memory

/// Room for a new connection when all places are taken.
///
/// A full server ends connections that only wait for their peer, as nginx does, and only for a peer with fewer connections
/// than the one that loses: first those that have asked for nothing yet, the longest wait first, and then those of the
/// address with the most connections, idle ones first. A request whose content is to come, or whose response is to be read,
/// waits for its peer too: a few addresses could hold all places with a byte every few seconds. It stays while its address
/// has few connections. Connections for which the server or Apple Music works stay, and so do those of trusted proxies,
/// which have the requests of others.
extension Worker {
  /// The most connections that one turn looks at: with a few addresses that hold all of them, nearly all would do.
  private static let looks = 64
  /// The most connections that end for another one. Each holds 4 kB or more; a handshake needs eleven times that.
  private static let mostEnded = 16

  /// Ends a connection, to make room for another one. Returns false if none may lose its place.
  /// - Parameters:
  ///   - newcomer: The connection that needs the room; nil if it is not open yet.
  ///   - others: How many connections its address has besides it: 0 for a trusted proxy.
  func makeRoom(for newcomer: Connection? = nil, besides others: Int) -> Bool {
    let occupants = nextPlaces(Self.looks).map { connections[$0] }.filter { $0 !== newcomer }.compactMap(\.occupant)
    let counts = count.connections(of: occupants.map(\.address))
    let held = zip(occupants, counts).map {
      HeldPlace(waitsFor: $0.waitsFor, arrival: $0.connection.arrival, ofAddress: $1)
    }
    guard let index = HeldPlace.leastDeserved(held, besides: others) else { return false }
    let connection = occupants[index].connection
    observer.noticed(.connectionRecycled(connection.peer.address))
    connection.giveUpPlace()
    return true
  }

  /// Charges a connection that is opening for what it is about to hold, and makes room for it if the budget has none.
  /// Returns false if the charge is refused in the end. The parameters are those of `makeRoom` and `count`.
  func charge(_ hold: MemoryHold, _ bytes: Int, for address: IPAddress?, _ newcomer: Connection? = nil) -> Bool {
    var ended = 0
    while !hold.resize(to: bytes, for: .connection) {
      let others = address.map { count.connections(of: [$0])[0] - 1 } ?? -1
      guard ended < Self.mostEnded, makeRoom(for: newcomer, besides: others) else { return false }
      ended += 1
    }
    return true
  }
}

/// A place that a connection holds while it only waits for its peer.
struct HeldPlace: Equatable {
  /// What it waits for, the least worth first.
  enum Wait: Comparable {
    case firstRequest, nextRequest
    /// The rest of a request, or that the peer reads.
    case exchange
  }

  /// The connections of one address that keep their places with a request in progress: 16, more than a browser opens.
  static let mostExchanges = 16

  let waitsFor: Wait
  let arrival: Int
  /// The number of connections of its address; 0 for a trusted proxy.
  let ofAddress: Int

  /// Returns the index of the place that a newcomer gets, whose address has `others` already; nil if it gets none.
  static func leastDeserved(_ places: [HeldPlace], besides others: Int) -> Int? {
    places.indices.filter { places[$0].ofAddress > others }
      .filter { places[$0].waitsFor < .exchange || places[$0].ofAddress > mostExchanges }
      .min { places[$0].deservesLess(than: places[$1]) }
  }

  private func deservesLess(than other: HeldPlace) -> Bool {
    if waitsFor != .firstRequest, other.waitsFor != .firstRequest, ofAddress != other.ofAddress {
      return ofAddress > other.ofAddress
    }
    return (waitsFor, arrival) < (other.waitsFor, other.arrival)
  }
}

extension Connection {
  /// What the connection is to the server while it only waits for its peer; nil while it does more.
  var occupant: (connection: Connection, address: IPAddress, waitsFor: HeldPlace.Wait)? {
    guard let counted, var wait = state.peerWait else { return nil }
    if let http2, !http2.isIdle {
      guard http2.awaitsPeer else { return nil }
      wait = .exchange
    }
    return (self, counted, transport.isPending ? .exchange : wait)
  }

  /// Ends the connection, because another one needs its place.
  func giveUpPlace() {
    if let http2 {
      // A client that knows which streams were served sends the others again (RFC 9113 §6.8).
      http2.sendGoAway()
      flushHTTP2()
    }
    // A peer must not take a part of a response for the whole, and the kernel must not keep what the peer does not read.
    if transport.isPending || channel.unacknowledged > Self.freeOfCharge { channel.resetOnClose() }
    close()
  }
}

/// The number of connections, in total and per address, over all loops of a server.
final class ConnectionCount: Sendable {
  private let state = Locked(Counts())
  private let limits: ServerLimits
  private let group = DispatchGroup()

  private struct Counts {
    var total = 0
    var accepted = 0
    var perAddress: [IPAddress: Int] = [:]
  }

  init(limits: ServerLimits) { self.limits = limits }

  enum ConnectionPermission: Equatable {
    case granted
    /// The server has its limit of connections, and the address has so many of them.
    case tooMany(ofAddress: Int)
    case tooManyFromAddress
  }

  /// Counts a new connection, unless there are too many; nil is exempt from the limit per address. `release` needs the same.
  func admit(_ address: IPAddress?) -> ConnectionPermission {
    state.withLock { state in
      let count = address.map { state.perAddress[$0, default: 0] } ?? 0
      guard state.total < limits.connections else { return .tooMany(ofAddress: count) }
      if let address {
        guard count < limits.connectionsPerAddress else { return .tooManyFromAddress }
        state.perAddress[address] = count + 1
      }
      state.total += 1
      state.accepted &+= 1
      group.enter()
      return .granted
    }
  }

  func release(_ address: IPAddress?) {
    state.withLock { state in
      state.total -= 1
      guard let address, let count = state.perAddress[address] else { return }
      state.perAddress[address] = count > 1 ? count - 1 : nil
    }
    group.leave()
  }

  func connections(of addresses: [IPAddress]) -> [Int] {
    state.withLock { state in addresses.map { state.perAddress[$0, default: 0] } }
  }

  /// The number of open connections, and of all that were ever accepted.
  var totals: (open: Int, accepted: Int) { state.withLock { ($0.total, $0.accepted) } }

  /// Blocks until no connection is open, at most for `timeout`. Returns false if some are left.
  func waitForNone(timeout: Duration) -> Bool {
    group.wait(timeout: .now() + .nanoseconds(Int(clamping: timeout.wholeNanoseconds))) == .success
  }
}
