import Glibc

/// A reply of Redis, by RESP 2.
public enum RedisReply: Equatable, Sendable {
  /// No value.
  case null
  /// A number.
  case integer(Int64)
  /// A simple or bulk string.
  case text([UInt8])
  /// An error with its text.
  case error(String)
  /// A list.
  case array([RedisReply])

  /// The text of a string; nil for other replies.
  public var string: String? {
    if case .text(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
  }

  /// The bytes of a string; nil for other replies.
  public var bytes: [UInt8]? {
    if case .text(let bytes) = self { bytes } else { nil }
  }

  /// The number of an integer; nil for other replies.
  public var number: Int64? {
    if case .integer(let number) = self { number } else { nil }
  }

  /// The elements of a list; nil for other replies.
  public var elements: [RedisReply]? {
    if case .array(let elements) = self { elements } else { nil }
  }
}

/// A connection to Redis that sends one command after another, and blocks. A subscription's messages are further replies.
public final class RedisConsole {
  private let client: RawClient
  private var unread: [UInt8] = []
  private var position = 0

  /// Connects to a Unix-domain socket.
  public init(path: String) throws {
    client = try RawClient(path: path)
  }

  /// Sends a command and returns its reply.
  @discardableResult
  public func command(_ words: String...) throws -> RedisReply { try command(words.map { Array($0.utf8) }) }

  /// Sends a command of any bytes and returns its reply.
  @discardableResult
  public func command(_ words: [[UInt8]]) throws -> RedisReply {
    var bytes = Array("*\(words.count)\r\n".utf8)
    for word in words { bytes += Array("$\(word.count)\r\n".utf8) + word + Array("\r\n".utf8) }
    try client.send(bytes)
    return try reply()
  }

  /// Returns the next reply or message. Waits for a minute at most.
  public func reply() throws -> RedisReply {
    let line = try line()
    guard let kind = line.first else { throw TestFailure("Redis sent an empty line.") }
    let rest = String(decoding: line.dropFirst(), as: UTF8.self)
    switch kind {
    case UInt8(ascii: "+"): return .text(Array(rest.utf8))
    case UInt8(ascii: "-"): return .error(rest)
    case UInt8(ascii: ":"): return .integer(try number(rest))
    case UInt8(ascii: "$"):
      let count = Int(try number(rest))
      guard count >= 0 else { return .null }
      return .text(try bytes(count))
    case UInt8(ascii: "*"):
      let count = Int(try number(rest))
      guard count >= 0 else { return .null }
      return .array(try (0..<count).map { _ in try reply() })
    default: throw TestFailure("Redis sent \(String(decoding: line, as: UTF8.self)).")
    }
  }

  private func number(_ text: String) throws -> Int64 {
    guard let number = Int64(text) else { throw TestFailure("Redis sent no number: \(text).") }
    return number
  }

  private func line() throws -> [UInt8] {
    var end = position
    while true {
      while end + 1 < unread.count {
        if unread[end] == 13, unread[end + 1] == 10 {
          defer { position = end + 2 }
          return Array(unread[position..<end])
        }
        end += 1
      }
      end -= try receive()
    }
  }

  private func bytes(_ count: Int) throws -> [UInt8] {
    while unread.count - position < count + 2 { _ = try receive() }
    defer { position += count + 2 }
    return Array(unread[position..<position + count])
  }

  /// Receives more bytes. Returns by how much the unread bytes moved to the front.
  private func receive() throws -> Int {
    let moved = position
    unread.removeFirst(moved)
    position = 0
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe recv(client.descriptor, &buffer, buffer.count, 0)
    guard count > 0 else { throw TestFailure("Redis sent no reply: \(count == 0 ? "the end" : "an error").") }
    unread += buffer[..<count]
    return moved
  }
}
