import CPlatform
import Glibc

/// A listening socket on one event loop, which passes each accepted connection to its owner.
public final class Listener: ChannelDelegate, @unchecked Sendable {
  // Sendable: made on one thread, passed once to its loop by `start`, and confined to the loop from then on.

  /// The receiver of a listener's connections. The listener calls its methods on the loop.
  public protocol Owner: AnyObject {
    /// Receives an accepted connection; the descriptor is non-blocking.
    func listener(_ listener: Listener, accepted descriptor: consuming Descriptor, from peer: SocketAddress)
    /// Receives an error of accept for lack of descriptors or memory. The listener retries after `Listener.backOff`.
    func listener(_ listener: Listener, pausedAfter error: SocketError)
  }

  /// The address of the socket, with the port that the system picked if 0 was requested.
  public let address: SocketAddress

  /// The pause after accepting fails for lack of descriptors. Meanwhile connections wait in the kernel's queue, and the
  /// loop serves its present connections instead of spinning.
  public static let backOff = Duration.milliseconds(100)

  /// The maximum number of connections accepted at once, so that a flood of new connections does not starve the present
  /// ones.
  private static let batch = 64

  /// The file of a Unix-domain socket, for the one listener that removes it.
  private let file: SocketFile?
  private var descriptor: Descriptor?
  private var channel: Channel?
  private weak var owner: (any Owner)?

  init(_ descriptor: consuming Descriptor, at address: SocketAddress, file: SocketFile?) {
    self.descriptor = consume descriptor
    self.address = address
    self.file = file
  }

  /// Starts to accept, on `loop`'s thread.
  public func start(on loop: IOLoop, for owner: any Owner) {
    loop.assertCurrent()
    guard let descriptor = descriptor.take() else { return }
    self.owner = owner
    let channel = loop.open(descriptor)
    self.channel = channel
    channel.watch(until: .never, self)
  }

  /// Handles waiting connections, or the end of the backoff.
  public func channel(_ channel: Channel, became readiness: Readiness) {
    channel.loop.assertCurrent()
    if readiness == .cancelled {
      // The channel is closed, or the poller could not watch it for lack of memory. In the second case, try again
      // later.
      if channel.raw >= 0 { channel.sleep(until: channel.loop.now.advanced(by: Self.backOff), self) }
    } else if accept(atMost: Self.batch) {
      channel.watch(until: .never, self)
    } else {
      channel.sleep(until: channel.loop.now.advanced(by: Self.backOff), self)
    }
  }

  /// Refuses further connection requests. Connections that the kernel has acknowledged can still be accepted.
  ///
  /// Closing a listener resets the connections in its queue, so a drain takes three steps: this function, a round
  /// trip's time for pending TCP handshakes, and `acceptRestAndClose`.
  public func refuseConnectionRequests() {
    guard let channel else { return }
    channel.loop.assertCurrent()
    switch address {
    case .ip: _ = cplatform_drop_connection_requests(channel.raw)
    case .unix: file?.remove()
    }
  }

  /// Accepts all waiting connections, and closes the listener.
  public func acceptRestAndClose() {
    channel?.loop.assertCurrent()
    _ = accept(atMost: .max)
    channel?.close()
    channel = nil
  }

  /// Passes a connection to the owner. Without an owner the connection closes.
  private func handOver(_ descriptor: consuming Descriptor, from peer: SocketAddress) {
    guard let owner else { return }
    owner.listener(self, accepted: descriptor, from: peer)
  }

  /// Accepts waiting connections. Returns false if the system lacks the resources to accept.
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
        continue  // an error of this connection, which ended before it was accepted (accept(2), "Error handling")
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
