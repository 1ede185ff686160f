import CPlatform
import Glibc
import Locks

/// A listening socket on one event loop, which passes each accepted connection to its owner.
package final class Listener: ChannelDelegate, @unchecked Sendable {
  // Sendable: made on one thread, passed once to its loop by `start`, and confined to the loop from then on.
  /// The receiver of a listener's connections. The listener calls its methods on the loop.
  package protocol Owner: AnyObject {
    /// Receives an accepted connection; the descriptor is non-blocking.
    func listener(_ listener: Listener, accepted descriptor: consuming Descriptor, from peer: SocketAddress)
    /// Receives the error if accept lacks descriptors or memory. Returns whether a descriptor was freed, else it backs off.
    func listener(_ listener: Listener, cannotAccept error: SocketError) -> Bool
    /// Receives whether the turn has accepted as many connections as it may, so that more probably wait. If not, the owner
    /// may take freed descriptors back: accept(2) first takes a descriptor and then a connection, so the last one was freed
    /// for nothing.
    func listener(_ listener: Listener, isCrowded: Bool)
  }

  /// The address of the socket, with the port that the system picked if 0 was requested.
  package let address: SocketAddress

  /// The pause after accepting fails for lack of descriptors. Meanwhile connections wait in the kernel's queue.
  package static let backOff = Duration.milliseconds(100)
  /// The most connections accepted at once, so that a flood of new connections does not starve the present ones.
  private static let batch = 64

  /// The origin of a listener's socket, which decides what a drain does with it.
  enum Origin {
    /// A socket of TCP that only this listener has.
    case ownSocket
    /// A Unix-domain socket that the listeners of all loops share, and its file for the one listener that removes it.
    case file(SocketFile?)
    /// A socket that the listeners of all loops share, and that the service manager keeps open for the next process.
    case passed(ListenerGroup)
  }

  private let origin: Origin
  private var descriptor: Descriptor?
  private var channel: Channel?
  private weak var owner: (any Owner)?

  init(_ descriptor: consuming Descriptor, at address: SocketAddress, _ origin: Origin) {
    self.descriptor = consume descriptor
    (self.address, self.origin) = (address, origin)
  }

  package func start(on loop: IOLoop, for owner: any Owner) {
    loop.assertCurrent()
    guard let descriptor = descriptor.take() else { return }
    self.owner = owner
    let channel = loop.open(descriptor)
    self.channel = channel
    loop.lookEarly(at: channel)
    guard case .passed(let group) = origin else { return channel.watch(until: .never, self) }
    for member in group.join(self, on: loop) {
      member.loop.post { if let channel = member.listener.channel { channel.watch(until: .never, member.listener) } }
    }
  }

  package func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    if channel.raw < 0 {
      if case .passed(let group) = origin { group.leave(self) }
    } else if readiness != .cancelled, accept(atMost: Self.batch) {
      channel.watch(until: .never, self)
    } else {
      // A wait of an open channel is cancelled if the poller could not watch it for lack of memory.
      channel.sleep(until: channel.loop.now.advanced(by: Self.backOff), self)
    }
  }

  /// Refuses further connection requests. Those that the kernel has acknowledged can still be accepted.
  ///
  /// Closing a listener resets the connections in its queue, so a drain takes three steps: this function, a round trip's
  /// time for pending TCP handshakes, and `acceptRestAndClose`.
  ///
  /// A passed socket stays open in the service manager, and its queue is the next process's, which a filter or shutdown(2)
  /// would affect: the listener only closes its own descriptor.
  package func refuseConnectionRequests() {
    guard let channel else { return }
    channel.loop.assertCurrent()
    switch origin {
    case .ownSocket: _ = cplatform_drop_connection_requests(channel.raw)
    case .file(let file): file?.remove()
    case .passed(let group):
      group.leave(self)
      channel.close()
      self.channel = nil
    }
  }

  /// Accepts all waiting connections, and closes the listener.
  package func acceptRestAndClose() {
    channel?.loop.assertCurrent()
    _ = accept(atMost: .max)
    channel?.close()
    channel = nil
  }

  /// Passes a connection to the owner, or to the listener in the group whose turn it is.
  private func deal(_ descriptor: consuming Descriptor, from peer: SocketAddress) {
    guard case .passed(let group) = origin, let member = group.next(), member.listener !== self else {
      owner?.listener(self, accepted: descriptor, from: peer)
      return
    }
    let raw = descriptor.relinquish()
    let isPosted = member.loop.post {
      member.listener.owner?.listener(member.listener, accepted: Descriptor(owning: raw), from: peer)
    }
    // The loop has ended, and so has the connection.
    if !isPosted { _ = Descriptor(owning: raw) }
  }

  /// Accepts waiting connections. Returns false if the system lacks the resources to accept.
  private func accept(atMost limit: Int) -> Bool {
    guard let channel else { return true }
    for _ in 0..<limit {
      var storage = sockaddr_storage()
      let raw = unsafe storage.withPointer { unsafe cplatform_accept(channel.raw, $0, $1) }
      guard raw < 0 else {
        deal(Descriptor(owning: raw), from: SocketAddress(storage))
        continue
      }
      let error = SocketError(during: "accept")
      switch error.code {
      case EAGAIN, EWOULDBLOCK:
        owner?.listener(self, isCrowded: false)
        return true
      case EINTR, ECONNABORTED, EPROTO, EPERM, ENOPROTOOPT, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH:
        continue  // an error of this connection, which ended before it was accepted (accept(2), "Error handling")
      default:
        // EMFILE, ENFILE, ENOBUFS, ENOMEM. An unexpected error pauses the listener too, so that the loop does not spin.
        guard owner?.listener(self, cannotAccept: error) == true else { return false }
      }
    }
    owner?.listener(self, isCrowded: true)
    return true
  }
}

/// The listeners of all loops on one passed socket, which get its connections in turn. Without turns, the loop that wakes
/// first would take all connections that wait after a restart, and keep them.
final class ListenerGroup: Sendable {
  typealias Member = (loop: IOLoop, listener: Listener)

  private struct State {
    var members: [Member] = []
    /// The number of listeners that have not joined yet.
    var missing: Int
    var turns = 0
  }

  private let state: Locked<State>

  init(of count: Int) { state = Locked(State(missing: count)) }

  /// Adds a listener, on its loop. The call that completes the group returns all members, which may then accept.
  func join(_ listener: Listener, on loop: IOLoop) -> [Member] {
    state.withLock { state in
      state.members.append((loop, listener))
      state.missing -= 1
      return state.missing == 0 ? state.members : []
    }
  }

  func leave(_ listener: Listener) { state.withLock { state in state.members.removeAll { $0.listener === listener } } }

  /// Returns the member whose turn it is, or nil if all have left.
  func next() -> Member? {
    state.withLock { state in
      guard !state.members.isEmpty else { return nil }
      state.turns = (state.turns + 1) % state.members.count
      return state.members[state.turns]
    }
  }
}
