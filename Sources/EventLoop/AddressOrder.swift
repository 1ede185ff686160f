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
