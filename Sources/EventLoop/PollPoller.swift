import CPlatform
import Glibc

/// Readiness by POSIX poll(2), for systems without epoll. The list is handed to the kernel at each turn.
final class PollPoller: Poller {
  private var entries: [pollfd] = []
  private var tokens: [SlotToken] = []
  private var positions: [Int32: Int] = [:]

  func update(_ watched: Int32, from old: Interest, to new: Interest, token: SlotToken) throws(SocketError) {
    guard let position = positions[watched] else {
      if new.isEmpty { return }
      positions[watched] = entries.count
      entries.append(pollfd(fd: watched, events: new.pollEvents, revents: 0))
      tokens.append(token)
      return
    }
    if new.isEmpty {
      remove(at: position)
    } else {
      entries[position].events = new.pollEvents
      tokens[position] = token
    }
  }

  /// The last entry takes the place of the removed one.
  private func remove(at position: Int) {
    positions[entries[position].fd] = nil
    let last = entries.removeLast()
    let token = tokens.removeLast()
    guard position < entries.count else { return }
    entries[position] = last
    tokens[position] = token
    positions[last.fd] = position
  }

  func wait(milliseconds: Int32, into ready: inout [SlotToken]) {
    let count = unsafe entries.withUnsafeMutableBufferPointer { buffer in
      unsafe poll(buffer.baseAddress, nfds_t(buffer.count), milliseconds)
    }
    guard count > 0 else { return }
    for (position, entry) in entries.enumerated() where entry.revents != 0 {
      ready.append(tokens[position])
    }
  }
}

extension Interest {
  fileprivate var pollEvents: Int16 {
    Int16((contains(.read) ? POLLIN : 0) | (contains(.write) ? POLLOUT : 0))
      | (contains(.hangup) ? cplatform_poll_hangup() : 0)
  }
}
