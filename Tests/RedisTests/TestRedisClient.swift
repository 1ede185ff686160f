import Cryptography
import EventLoop
import Locks
import TestSupport
import Testing

@testable import Redis

/// A client on a loop of its own, used from a thread that waits.
final class TestRedisClient: Sendable {
  let client: RedisClient
  let loop: IOLoop
  private let log = Locked(Log())

  private struct Log {
    var problems: [String?] = []
    var messages: [String] = []
  }

  /// - Parameter isPatient: Whether a slow machine must not look like a server that has stopped to respond.
  init(_ configuration: RedisClient.Configuration, isPatient: Bool = true) throws {
    var configuration = configuration
    if isPatient {
      (configuration.limits.connect, configuration.limits.stall) = (.seconds(60), .seconds(60))
      configuration.limits.silence = .seconds(60)
    }
    loop = try IOLoop.start(label: "test.redis")
    client = RedisClient(configuration, loop: loop)
    loop.post { [client, log] in
      client.onChange = { problem in log.withLock { $0.problems.append(problem) } }
      client.onMessage = { text in log.withLock { $0.messages.append(String(decoding: text, as: UTF8.self)) } }
      client.start()
    }
  }

  deinit {
    loop.performAndWait { [client] in client.close() }
    loop.stop()
  }

  /// What it has reported; nil when it was ready.
  var problems: [String?] { log.withLock { $0.problems } }
  var messages: [String] { log.withLock { $0.messages } }
  var isReady: Bool { onLoop { $0.isReady } }

  func waitUntilReady() { wait(for: "a client that is ready") { isReady } }

  /// The reason why the client is not ready, which it waits for.
  func reason() -> String {
    var reason = ""
    wait(for: "a client that is not ready") {
      guard let text = problems.last ?? nil else { return false }
      reason = text
      return true
    }
    return reason
  }

  func onLoop<Value: Sendable>(_ body: @escaping @Sendable (RedisClient) -> Value) -> Value {
    let box = Locked<[Value]>([])
    loop.performAndWait { [client] in
      let value = body(client)
      box.withLock { $0 = [value] }
    }
    return box.withLock { $0[0] }
  }

  /// Sends a command and waits for its result.
  func send(_ words: String..., within time: Duration = .seconds(60)) throws -> Result<RESPValue, RedisError> {
    try result { client, loop, done in
      client.send(words.map { Array($0.utf8) }, until: loop.now.advanced(by: time), done)
    }
  }

  func run(_ script: RedisScript, keys: [String] = [], _ arguments: [String] = []) throws
    -> Result<RESPValue, RedisError>
  {
    try result { client, loop, done in
      client.run(
        script, keys: keys.map { Array($0.utf8) }, arguments: arguments.map { Array($0.utf8) },
        until: loop.now.advanced(by: .seconds(60)), done)
    }
  }

  private func result(
    _ body: @escaping @Sendable (RedisClient, IOLoop, @escaping RedisClient.Completion) -> Void
  ) throws -> Result<RESPValue, RedisError> {
    let box = Locked<Result<RESPValue, RedisError>?>(nil)
    loop.post { [client, loop] in
      body(client, loop) { result in box.withLock { $0 = result } }
    }
    wait(for: "the result of a command") { box.withLock { $0 } != nil }
    guard let result = box.withLock({ $0 }) else { throw TestFailure("There was no result.") }
    return result
  }
}

extension RedisClient.Configuration {
  /// A configuration for a real server.
  init(_ server: RedisServer) { self.init(.unix(path: server.socket)) }

  /// A configuration for a port of loopback.
  init(port: UInt16) { self.init(.tcp(host: "127.0.0.1", port: port)) }
}

extension SecretBytes {
  convenience init(_ text: String) { self.init(copying: Array(text.utf8).span) }
}
