import Dispatch
import EventLoop
import TestSupport
import Testing

@testable import ClientTransport
@testable import Redis

@Suite("A client of a hostile server")
struct HostileServerTests {
  /// What the client sends first, up to the PING behind its greeting.
  private static func greet(_ peer: ScriptedPeer) throws -> PeerConnection {
    let connection = try peer.accept()
    _ = try connection.bytes(through: "PING\r\n")
    connection.send("%1\r\n+server\r\n+redis\r\n+PONG\r\n")
    return connection
  }

  @Test(
    "ends the connection on bytes that are no reply",
    arguments: [
      ("x", "It sent bytes that are no reply of Redis."),
      ("+unsolicited\r\n", "It sent bytes that are no reply of Redis."),
      ("$99999999999\r\n", "It sent a reply that exceeds the server's limits."),
      ("*1025\r\n", "It sent a reply that exceeds the server's limits."),
    ])
  func garbage(_ bytes: String, _ reason: String) throws {
    let peer = try ScriptedPeer()
    let client = try TestRedisClient(.init(port: peer.port))
    let connection = try Self.greet(peer)
    client.waitUntilReady()
    connection.send(bytes + (bytes == "x" ? "\r\n" : ""))
    wait(for: "the end of the connection") { client.problems.contains(reason) }
    #expect(connection.waitForEnd())
  }

  @Test("bounds an endless string")
  func endlessString() throws {
    let peer = try ScriptedPeer()
    var configuration = RedisClient.Configuration(port: peer.port)
    configuration.limits.replies.string = 1000
    let client = try TestRedisClient(configuration)
    let connection = try Self.greet(peer)
    client.waitUntilReady()
    connection.send("$1001\r\n")
    #expect(connection.waitForEnd())
  }

  @Test("keeps none of the messages that it has read, although a part of the next one is always there")
  func endlessMessages() throws {
    let peer = try ScriptedPeer()
    var configuration = RedisClient.Configuration(port: peer.port)
    configuration.channel = Array("c".utf8)
    let client = try TestRedisClient(configuration)
    let connection = try peer.accept()
    _ = try connection.bytes(through: "$1\r\nc\r\n")
    connection.send("%1\r\n+server\r\n+redis\r\n>3\r\n+subscribe\r\n+c\r\n:1\r\n")
    client.waitUntilReady()
    // Each message is longer than a read, so no read ends with one.
    let message = ">3\r\n+message\r\n+c\r\n$300000\r\n" + String(repeating: "a", count: 300_000) + "\r\n"
    let (count, half) = (20, message.utf8.count / 2)
    connection.send(String(message.prefix(half)))
    let rest = String(message.dropFirst(half)) + String(message.prefix(half))
    for number in 1...count {
      connection.send(rest)
      wait(for: "message \(number)") { client.messages.count == number }
    }
    let held = { client.onLoop { $0.connection?.transport.input.count ?? 0 } }
    wait(for: "the part of the next message") { held() >= half }
    #expect(held() <= 2 * message.utf8.count, "\(held())")
  }

  @Test("leaves a flood of messages unread for most of the time, and still gets the replies between them")
  func flood() throws {
    let peer = try ScriptedPeer()
    var configuration = RedisClient.Configuration(port: peer.port)
    configuration.channel = Array("c".utf8)
    let client = try TestRedisClient(configuration)
    let connection = try peer.accept()
    _ = try connection.bytes(through: "$1\r\nc\r\n")
    connection.send("%1\r\n+server\r\n+redis\r\n>3\r\n+subscribe\r\n+c\r\n:1\r\n")
    client.waitUntilReady()
    // The pauses alone take five seconds.
    let count = 25_000
    let flood = String(repeating: ">3\r\n+message\r\n+c\r\n+a\r\n", count: count)
    DispatchQueue.global().async {
      _ = try? connection.bytes(through: "PING\r\n")
      connection.send(flood + "+PONG\r\n" + flood)
    }
    client.onLoop { client in
      client.send([Array("PING".utf8)], until: client.loop.now.advanced(by: .seconds(60))) { _ in }
    }
    wait(for: "a pause") { client.onLoop { $0.connection?.transport.isReading == false } }
    wait(for: "all messages") { client.messages.count == 2 * count }
    #expect(client.problems == [nil])
  }

  @Test("does not wait for a greeting that does not come")
  func silentGreeting() throws {
    let peer = try ScriptedPeer()
    var configuration = RedisClient.Configuration(port: peer.port)
    configuration.limits.connect = .milliseconds(50)
    let client = try TestRedisClient(configuration, isPatient: false)
    let connection = try peer.accept()
    #expect(client.reason() == "It did not finish the greeting in time.")
    #expect(try connection.bytes(through: "PING\r\n").hasPrefix("*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"))
    #expect(connection.waitForEnd())
  }

  @Test("needs RESP 3")
  func oldServer() throws {
    let peer = try ScriptedPeer()
    let client = try TestRedisClient(.init(port: peer.port))
    let connection = try peer.accept()
    _ = try connection.bytes(through: "PING\r\n")
    connection.send("-ERR unknown command `HELLO`\r\n")
    #expect(client.reason() == "It does not speak RESP 3. The server needs Redis 6 or later, or Valkey.")
  }

  private static let readOnlyErrors = [
    "READONLY You can't write against a read only replica.",
    "ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write against a read only replica.",
  ]

  @Test(
    "is left for longer each time if it greets and then accepts no commands, and for a short time if it did before",
    arguments: [(Duration.seconds(3600), [1, 2, 3]), (.zero, [1, 1, 1])], readOnlyErrors)
  func readOnly(_ lasting: (Duration, failures: [Int]), _ text: String) throws {
    let peer = try ScriptedPeer()
    var configuration = RedisClient.Configuration(port: peer.port)
    configuration.limits.leastBackOff = .milliseconds(1)
    configuration.limits.lasting = lasting.0
    let client = try TestRedisClient(configuration)
    var failures: [Int] = []
    for _ in 1...3 {
      let connection = try Self.greet(peer)
      client.waitUntilReady()
      DispatchQueue.global().async {
        _ = try? connection.bytes(through: "SET\r\n")
        connection.send("-\(text)\r\n")
      }
      #expect(try client.send("SET").failure?.isRefusal(beginning: text) == true)
      failures.append(client.onLoop { $0.backOff.failures })
    }
    #expect(failures == lasting.failures)
  }

  @Test("holds at most its limit of commands without a reply")
  func tooManyCommands() throws {
    let peer = try ScriptedPeer()
    var configuration = RedisClient.Configuration(port: peer.port)
    configuration.limits.pending = 3
    let client = try TestRedisClient(configuration)
    let connection = try Self.greet(peer)
    client.waitUntilReady()
    let results = client.onLoop { client -> Int in
      var refused = 0
      for _ in 1...5 {
        client.send([Array("PING".utf8)], until: client.loop.now.advanced(by: .seconds(60))) { result in
          if result == .failure(.overloaded) { refused += 1 }
        }
      }
      return refused
    }
    #expect(results == 2)
    _ = try connection.bytes(through: "PING\r\n")
  }

  @Test("tells every command that waits when the connection ends")
  func lostCommands() throws {
    let peer = try ScriptedPeer()
    let client = try TestRedisClient(.init(port: peer.port))
    let connection = try Self.greet(peer)
    client.waitUntilReady()
    DispatchQueue.global().async {
      _ = try? connection.bytes(through: "PING\r\n")
      connection.reset()
    }
    #expect(try client.send("PING") == .failure(.unavailable))
  }
}
