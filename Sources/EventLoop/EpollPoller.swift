#if os(Linux)
  import CPlatform
  import Glibc

  /// Readiness by epoll(7). The kernel keeps the list; a connection that stays idle costs nothing per turn.
  // Safe: of the union in `epoll_event` only the member that was written, `u64`, is ever read.
  @safe final class EpollPoller: Poller {
    private let descriptor: Descriptor
    private var events = unsafe [epoll_event](repeating: epoll_event(), count: 256)

    init() throws(SocketError) {
      let raw = epoll_create1(Int32(EPOLL_CLOEXEC))
      guard raw >= 0 else { throw SocketError(during: "epoll_create1") }
      descriptor = Descriptor(owning: raw)
    }

    func update(_ watched: Int32, from old: Interest, to new: Interest, token: SlotToken) throws(SocketError) {
      guard old != new else { return }
      var event = unsafe epoll_event()
      unsafe event.events =
        (new.contains(.read) ? EPOLLIN.rawValue : 0) | (new.contains(.write) ? EPOLLOUT.rawValue : 0)
        | (new.contains(.hangup) ? EPOLLRDHUP.rawValue : 0)
      unsafe event.data.u64 = UInt64(token.index) << 32 | UInt64(token.generation)
      // epoll reports errors and hang-ups of whatever is registered, asked or not: no interest means no registration.
      let operation = old.isEmpty ? EPOLL_CTL_ADD : new.isEmpty ? EPOLL_CTL_DEL : EPOLL_CTL_MOD
      guard unsafe epoll_ctl(descriptor.raw, operation, watched, &event) == 0 else {
        throw SocketError(during: "epoll_ctl")
      }
    }

    func wait(milliseconds: Int32, into ready: inout [SlotToken]) {
      let count = unsafe events.withUnsafeMutableBufferPointer { buffer in
        unsafe epoll_wait(descriptor.raw, buffer.baseAddress, Int32(buffer.count), milliseconds)
      }
      // A signal (EINTR) is a turn without news.
      guard count > 0 else { return }
      for index in 0..<Int(count) {
        let data = unsafe events[index].data.u64
        ready.append(
          SlotToken(index: UInt32(truncatingIfNeeded: data >> 32), generation: UInt32(truncatingIfNeeded: data)))
      }
    }
  }
#endif
