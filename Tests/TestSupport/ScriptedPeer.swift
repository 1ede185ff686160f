import Dispatch
import Glibc
public import Testing

/// A server of loopback that does what a test says, one step after the other.
public final class ScriptedPeer: Sendable {
  /// The port that it listens on.
  public let port: UInt16
  private let listener: Int32
  private let fillers: [Int32]

  /// Listens on a port, a free one if it is 0.
  /// - Parameter isDeaf: Whether it ignores connection requests: its queue is full.
  public init(port: UInt16 = 0, isDeaf: Bool = false) throws {
    listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var one: Int32 = 1
    unsafe setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = listener
    let isBound = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe bind(descriptor, address, length) == 0 && getsockname(descriptor, address, &length) == 0
      }
    }
    guard isBound, listen(descriptor, isDeaf ? 0 : 64) == 0 else { throw TestFailure("There is no port to listen on.") }
    self.port = UInt16(bigEndian: address.sin_port)
    fillers = (0..<(isDeaf ? 3 : 0)).map { _ in
      let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
      let filler = socket(AF_INET, type, 0)
      unsafe withUnsafeMutablePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = unsafe connect(filler, $0, length) }
      }
      return filler
    }
  }

  deinit {
    close(listener)
    for filler in fillers { close(filler) }
  }

  /// Refuses connections from now on.
  public func stop() {
    shutdown(listener, Int32(SHUT_RDWR))
  }

  /// The next connection, which it waits for, a minute at most.
  public func accept() throws -> PeerConnection {
    var patience = timeval(tv_sec: 60, tv_usec: 0)
    unsafe setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    let descriptor = Glibc.accept(listener, nil, nil)
    guard descriptor >= 0 else { throw TestFailure("There was no connection to accept within 60 s.") }
    return PeerConnection(descriptor)
  }
}

/// One connection of a scripted peer.
public final class PeerConnection: @unchecked Sendable {
  // Sendable: used by one thread at a time.
  fileprivate let descriptor: Int32
  private var isOpen = true
  private var received: [UInt8] = []

  fileprivate init(_ descriptor: Int32) {
    self.descriptor = descriptor
    var patience = timeval(tv_sec: 60, tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
      unsafe setsockopt(descriptor, SOL_SOCKET, option, &patience, socklen_t(MemoryLayout<timeval>.size))
    }
  }

  deinit { end() }

  /// The first connection on which something has arrived, which it waits for.
  public static func firstWithInput(of connections: [PeerConnection]) throws -> PeerConnection {
    var polled = connections.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
    _ = unsafe poll(&polled, nfds_t(polled.count), 60_000)
    guard let index = polled.firstIndex(where: { $0.revents != 0 }) else {
      throw TestFailure("The client sends no more.")
    }
    return connections[index]
  }

  /// The head of the next request, and as much content as it says.
  public func request() throws -> (head: String, content: [UInt8]) {
    while true {
      if let end = received.firstRange(of: Array("\r\n\r\n".utf8)) {
        let head = String(decoding: received[..<end.upperBound], as: UTF8.self)
        let line = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length: ") }
        let length = line.flatMap { Int($0.dropFirst(16)) } ?? 0
        if received.count - end.upperBound >= length {
          let content = Array(received[end.upperBound..<end.upperBound + length])
          received.removeFirst(end.upperBound + length)
          return (head, content)
        }
      }
      try receive()
    }
  }

  /// All bytes up to the end of `text`.
  public func bytes(through text: String) throws -> String {
    while true {
      if let end = received.firstRange(of: Array(text.utf8)) {
        defer { received.removeFirst(end.upperBound) }
        return String(decoding: received[..<end.upperBound], as: UTF8.self)
      }
      try receive()
    }
  }

  /// The next `count` bytes.
  public func bytes(_ count: Int) throws -> [UInt8] {
    while received.count < count { try receive() }
    defer { received.removeFirst(count) }
    return Array(received.prefix(count))
  }

  private func receive() throws {
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe recv(descriptor, &bytes, bytes.count, 0)
    guard count >= 0 || errno != EAGAIN else { throw TestFailure("Waited for 60 s in vain: bytes of the client.") }
    guard count > 0 else { throw TestFailure("The client sends no more.") }
    received += bytes.prefix(count)
  }

  /// Sends text.
  public func send(_ text: String) { send(Array(text.utf8)) }

  /// Sends all, unless the client closes, or takes nothing for a minute.
  public func send(_ bytes: [UInt8]) {
    var sent = 0
    while sent < bytes.count {
      let count = unsafe bytes[sent...].withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return }
      sent += count
    }
  }

  /// How many of `bytes` the client's and the system's buffers take.
  public func sendWhatFits(_ bytes: [UInt8], until isFull: () throws -> Bool) rethrows -> Int {
    var sent = 0
    while sent < bytes.count {
      let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
      let count = unsafe bytes[sent...].withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, flags)
      }
      if count > 0 { sent += count } else if try isFull() { break }
    }
    return sent
  }

  /// Whether the client has closed, which it waits for. A minute without bytes and without an end fails the test.
  public func waitForEnd(sourceLocation: SourceLocation = #_sourceLocation) -> Bool {
    var byte: UInt8 = 0
    let count = unsafe recv(descriptor, &byte, 1, 0)
    guard count < 0, errno == EAGAIN || errno == EWOULDBLOCK else { return count <= 0 }
    Issue.record("The client has not closed its connection within 60 s.", sourceLocation: sourceLocation)
    return false
  }

  /// Closes in good order.
  public func end() {
    guard isOpen else { return }
    isOpen = false
    shutdown(descriptor, Int32(SHUT_RDWR))
    close(descriptor)
  }

  /// Closes so that the client gets a reset.
  public func reset() {
    var linger = linger(l_onoff: 1, l_linger: 0)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    guard isOpen else { return }
    isOpen = false
    close(descriptor)
  }
}

extension PeerConnection {
  /// Says that the tunnel is there, and carries bytes both ways from now on.
  public func tunnel(to port: UInt16) throws {
    let other = try RawClient(port: port)
    send("HTTP/1.1 200 OK\r\n\r\n")
    Self.relay(from: dup(descriptor), to: dup(other.descriptor))
    Self.relay(from: dup(other.descriptor), to: dup(descriptor))
  }

  /// Carries bytes one way, and closes both descriptors at the end.
  private static func relay(from source: Int32, to target: Int32) {
    DispatchQueue.global().async {
      var bytes = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = unsafe recv(source, &bytes, bytes.count, 0)
        guard count > 0, unsafe Glibc.send(target, bytes, count, Int32(MSG_NOSIGNAL)) == count else { break }
      }
      shutdown(target, Int32(SHUT_WR))
      close(source)
      close(target)
    }
  }
}
