import Glibc
import TestSupport

/// A TCP or Unix-domain connection of bytes, for what no well-behaved client sends.
final class RawConnection {
  private let descriptor: Int32
  /// Kept, because a server ends with its last reference.
  private let server: RunningServer?
  private(set) var received: [UInt8] = []

  /// Connects to a port of 127.0.0.1.
  init(port: UInt16, of server: RunningServer? = nil) throws {
    self.server = server
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let result = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe Glibc.connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    // No close here: with every property set, a throw runs `deinit`, and a second close would hit whatever descriptor
    // another test has just been given under this number.
    guard result == 0 else {
      throw TestFailure("Nobody answers on port \(port): \(unsafe String(cString: strerror(errno))).")
    }
  }

  deinit { close(descriptor) }

  /// Sends all of it; false if the peer is gone.
  @discardableResult
  func send(_ text: String) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Sends bytes until the peer takes no more for a moment, or all have gone; returns how many.
  ///
  /// That nothing moves for a moment proves no stall; that all of it goes disproves one.
  func sendUntilFull(_ count: Int) -> Int {
    let part = [UInt8](repeating: UInt8(ascii: "x"), count: 65_536)
    var sent = 0
    while sent < count {
      var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
      guard unsafe poll(&entry, 1, 500) > 0 else { break }
      let number = unsafe Glibc.send(
        descriptor, part, min(part.count, count - sent), Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
      guard number > 0 else { break }
      sent += number
    }
    return sent
  }

  /// Says that nothing more will be sent.
  func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Reads until the peer closes; returns all that has come and was not taken.
  func receiveAll() throws -> String {
    while try receiveMore() {}
    defer { received = [] }
    return String(decoding: received, as: UTF8.self)
  }

  /// Reads one whole response with a `Content-Length`, or one that has no content.
  func response() throws -> ParsedResponse {
    while true {
      if let response = ParsedResponse(received) {
        let length = response["Content-Length"].flatMap { Int($0) } ?? 0
        if response.body.count >= length {
          received.removeFirst(received.count - response.body.count + length)
          return try response.cut(to: length)
        }
      }
      guard try receiveMore() else { throw TestFailure("The connection ended within a response.") }
    }
  }

  /// Reads an interim response, which has no fields, and returns its status line.
  func interimResponse() throws -> String {
    while true {
      let text = String(decoding: received, as: UTF8.self)
      if let end = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false).first,
        end.utf8.count < received.count
      {
        received.removeFirst(end.utf8.count + 4)
        return String(end)
      }
      guard try receiveMore() else { throw TestFailure("The connection ended within a response.") }
    }
  }

  /// Whether the peer closes its side next, rather than sending something.
  func isClosedByPeer() throws -> Bool {
    guard received.isEmpty else { return false }
    return try !receiveMore()
  }

  /// False at the end.
  private func receiveMore() throws -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    guard unsafe poll(&entry, 1, ChildProcess.patience) > 0 else { throw TestFailure("The server says nothing.") }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe recv(descriptor, &buffer, buffer.count, 0)
    guard count > 0 else { return false }
    received += buffer[..<count]
    return true
  }
}

extension ParsedResponse {
  /// The response with so much content.
  fileprivate func cut(to length: Int) throws -> ParsedResponse {
    ParsedResponse(version: version, status: status, fields: fields, body: Array(body.prefix(length)))
  }

  private init(version: String, status: Int, fields: [(name: String, value: String)], body: [UInt8]) {
    self.version = version
    self.status = status
    self.fields = fields
    self.body = body
  }
}
