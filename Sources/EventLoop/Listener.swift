import CPlatform
import Glibc

/// A listening socket on one event loop: hands over each connection that it accepts.
public final class Listener: ChannelDelegate, @unchecked Sendable {
  // Sendable: made on one thread, handed once to its loop by `start`, confined to it from then on.

  /// Whom a listener serves. All of it is called on the loop.
  public protocol Owner: AnyObject {
    /// A connection was accepted; the descriptor is non-blocking.
    func listener(_ listener: Listener, accepted descriptor: consuming Descriptor, from peer: SocketAddress)
    /// Accepting failed for want of descriptors or memory; it pauses for `Listener.backOff` and tries again.
    func listener(_ listener: Listener, pausedAfter error: SocketError)
  }

  /// Where it listens, with the port that the system picked if 0 was asked for.
  public let address: SocketAddress

  /// How long accepting rests when the system has no descriptors left: connections wait in the kernel's queue
  /// meanwhile, and the loop serves those that it has instead of spinning.
  public static let backOff = Duration.milliseconds(100)

  /// Connections accepted in one go, so that a flood of new ones does not starve those being served.
  private static let batch = 64

  /// The file of a Unix-domain socket, for the one of its listeners that removes it.
  private let file: SocketFile?
  private var descriptor: Descriptor?
  private var channel: Channel?
  private weak var owner: (any Owner)?

  init(_ descriptor: consuming Descriptor, at address: SocketAddress, file: SocketFile?) {
    self.descriptor = consume descriptor
    self.address = address
    self.file = file
  }

  /// Begins to accept, on `loop`'s thread.
  public func start(on loop: IOLoop, for owner: any Owner) {
    loop.assertCurrent()
    guard let descriptor = descriptor.take() else { return }
    self.owner = owner
    let channel = loop.open(descriptor)
    self.channel = channel
    channel.watch(until: .never, self)
  }

  /// Called by the loop when connections are waiting, or the back-off is over.
  public func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    if readiness == .cancelled {
      // Closed; or the poller could not take it for want of memory, and may later.
      if channel.raw >= 0 { channel.sleep(until: channel.loop.now.advanced(by: Self.backOff), self) }
    } else if accept(atMost: Self.batch) {
      channel.watch(until: .never, self)
    } else {
      channel.sleep(until: channel.loop.now.advanced(by: Self.backOff), self)
    }
  }

  /// Lets no further connection requests in; those that the kernel has acknowledged can still be accepted.
  ///
  /// Closing a listener resets what is queued on it, so a drain takes three steps: this, a round trip's time for
  /// handshakes under way, and `acceptRestAndClose`.
  public func refuseConnectionRequests() {
    guard let channel else { return }
    channel.loop.assertCurrent()
    switch address {
    case .ip: _ = cplatform_drop_connection_requests(channel.raw)
    case .unix: file?.remove()
    }
  }

  /// Accepts all that wait, and closes.
  public func acceptRestAndClose() {
    channel?.loop.assertCurrent()
    _ = accept(atMost: .max)
    channel?.close()
    channel = nil
  }

  /// Without an owner the connection closes.
  private func handOver(_ descriptor: consuming Descriptor, from peer: SocketAddress) {
    guard let owner else { return }
    owner.listener(self, accepted: descriptor, from: peer)
  }

  /// False when the system has nothing left to accept with.
  private func accept(atMost limit: Int) -> Bool {
    guard let channel else { return true }
    for _ in 0..<limit {
      var storage = sockaddr_storage()
      let raw = unsafe storage.withPointer { unsafe cplatform_accept(channel.raw, $0, $1) }
      if raw >= 0 {
        handOver(Descriptor(owning: raw), from: SocketAddress(storage))
        continue
      }
      switch errno {
      case EAGAIN, EWOULDBLOCK:
        return true
      case EINTR, ECONNABORTED, EPROTO, EPERM, ENOPROTOOPT, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH:
        continue  // an error of the one connection, gone before it was accepted (accept(2), "Error handling")
      default:
        // EMFILE, ENFILE, ENOBUFS, ENOMEM. An unexpected error pauses the listener too, so that the loop does not spin.
        owner?.listener(self, pausedAfter: SocketError(during: "accept"))
        return false
      }
    }
    return true
  }
}

extension sockaddr_storage {
  @unsafe fileprivate mutating func withPointer(
    _ body: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
  ) -> Int32 {
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return unsafe withUnsafeMutablePointer(to: &self) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0, &length) }
    }
  }
}
