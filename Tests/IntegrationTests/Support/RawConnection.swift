import Glibc
import TestSupport

/// A TCP connection to a server under test, with parsed responses.
final class RawConnection {
  private let client: RawClient
  /// Retained, because a server ends with its last reference.
  private let server: RunningServer?
  private(set) var received: [UInt8] = []

  /// Connects to a port of 127.0.0.1.
  init(port: UInt16, of server: RunningServer? = nil) throws {
    self.server = server
    client = try RawClient(port: port)
  }

  /// Sends the whole text; false if the peer has closed the connection.
  @discardableResult
  func send(_ text: String) -> Bool {
    do { try client.send(text) } catch { return false }
    return true
  }

  /// Sends bytes until the peer accepts no more for a moment, or all bytes are sent. Returns the number of bytes sent.
  ///
  /// A pause does not prove a stall, but a complete transfer disproves one.
  func sendUntilFull(_ count: Int) -> Int {
    let part = [UInt8](repeating: UInt8(ascii: "x"), count: 65_536)
    var sent = 0
    while sent < count {
      var entry = pollfd(fd: client.descriptor, events: Int16(POLLOUT), revents: 0)
      guard unsafe poll(&entry, 1, 500) > 0 else { break }
      let number = unsafe Glibc.send(
        client.descriptor, part, min(part.count, count - sent), Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
      guard number > 0 else { break }
      sent += number
    }
    return sent
  }

  /// Closes the sending side.
  func finishSending() { client.finishSending() }

  /// Reads until the peer closes, and returns all unread bytes.
  func receiveAll() throws -> String {
    while try receiveMore() {}
    defer { received = [] }
    return String(decoding: received, as: UTF8.self)
  }

  /// Reads one whole response with a `Content-Length` or in chunks, or one without content.
  func response() throws -> ParsedResponse {
    while true {
      if let response = ParsedResponse(received) {
        if response["Transfer-Encoding"] == "chunked" {
          if let (content, rest) = Self.joined(response.body) {
            received.removeFirst(received.count - rest)
            return response.with(content)
          }
          guard try receiveMore() else { throw TestFailure("The connection ended within a response.") }
          continue
        }
        let length = response["Content-Length"].flatMap { Int($0) } ?? 0
        if response.body.count >= length {
          received.removeFirst(received.count - response.body.count + length)
          return response.with(Array(response.body.prefix(length)))
        }
      }
      guard try receiveMore() else { throw TestFailure("The connection ended within a response.") }
    }
  }

  /// The content of all chunks (RFC 9112 §7.1) and the number of bytes behind them; nil if they are not complete.
  private static func joined(_ bytes: [UInt8]) -> (content: [UInt8], rest: Int)? {
    var content: [UInt8] = []
    var rest = bytes[...]
    while let end = rest.firstIndex(of: UInt8(ascii: "\r")),
      let size = Int(String(decoding: rest[..<end], as: UTF8.self), radix: 16),
      rest.count >= end - rest.startIndex + size + 4
    {
      content += rest[(end + 2)...].prefix(size)
      rest = rest[(end + 2 + size + 2)...]
      if size == 0 { return (content, rest.count) }
    }
    return nil
  }

  /// Reads an interim response without fields, and returns its status line.
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

  /// Whether the peer closes its side next, without further bytes.
  func isClosedByPeer() throws -> Bool {
    guard received.isEmpty else { return false }
    return try !receiveMore()
  }

  /// Reads more bytes; false at the end.
  private func receiveMore() throws -> Bool {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe recv(client.descriptor, &buffer, buffer.count, 0)
    guard count >= 0 || errno != EAGAIN else {
      throw TestFailure("Waited for \(RawClient.patience) s in vain: bytes of the server.")
    }
    guard count > 0 else { return false }
    received += buffer[..<count]
    return true
  }
}

extension ParsedResponse {
  /// The response with other content.
  fileprivate func with(_ content: [UInt8]) -> ParsedResponse {
    ParsedResponse(version: version, status: status, fields: fields, body: content)
  }

  private init(version: String, status: Int, fields: [(name: String, value: String)], body: [UInt8]) {
    self.version = version
    self.status = status
    self.fields = fields
    self.body = body
  }
}
