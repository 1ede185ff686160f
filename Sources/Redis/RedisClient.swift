import Bytes
import ClientTransport
package import Cryptography
package import EventLoop
package import Memory
package import TLS

/// Why a command has no reply.
package enum RedisError: Error, Sendable, Equatable {
  /// There is no connection, or its server has stopped to respond.
  case unavailable
  /// The deadline passed. The server may have run the command nevertheless.
  case timedOut
  /// Too many commands wait for replies.
  case overloaded
  /// An error of the server, such as `READONLY You can't write against a read only replica.`
  case refused([UInt8])
}

/// The connection of one event loop to a server of Redis or Valkey, by RESP 3.
///
/// The client stays connected. A command without a connection fails at once, and so does one behind commands that the server
/// has not answered for ``Limits/stall``. Commands of one turn of the loop are sent together. Confined to its loop.
package final class RedisClient: @unchecked Sendable {
  // Sendable by confinement: all methods run on the loop, which they check in debug builds.

  /// The bounds of a client: name, default, unit and reason.
  package struct Limits: Sendable {
    /// The time for a connection with TLS and greeting: 1 s. The server is near.
    package var connect: Duration = .seconds(1)
    /// The time without any reply to an open command after which further commands fail at once: 50 ms.
    package var stall: Duration = .milliseconds(50)
    /// The same time after which the connection ends: 1 s. The next one may find another server.
    package var silence: Duration = .seconds(1)
    /// The time at rest after which a PING finds out whether the server is still there: 10 s.
    package var rest: Duration = .seconds(10)
    /// The first and the longest pause between attempts: 50 to 500 ms. A returning server is found within 2 s.
    package var leastBackOff: Duration = .milliseconds(50)
    package var longestBackOff: Duration = .milliseconds(500)
    /// The time for which a connection lasts until the next pause is short again: 2 s. A greeting is no success: a read-only
    /// replica greets as well, and refuses the first command that writes.
    package var lasting: Duration = .seconds(2)
    /// The most commands without a reply: 4,096.
    package var pending = 4096
    /// The most bytes that wait to be sent: 8 MiB.
    package var backlog = 8 << 20
    /// The bounds of replies.
    package var replies = RESPLimits()

    package init() {}
  }

  /// Where the server is, and how to log in.
  package struct Configuration: Sendable {
    package enum Address: Sendable, Equatable {
      case tcp(host: String, port: UInt16)
      case unix(path: String)
    }

    package var address: Address
    /// The trusted CAs; nil for a connection without TLS.
    package var tls: TLSClientContext?
    /// The name of the user; nil for the default user.
    package var user: String?
    package var password: SecretBytes?
    package var database = 0
    /// The channel whose messages the client receives; nil for none.
    package var channel: [UInt8]?
    package var limits = Limits()
    package var memory = MemoryBudget.unlimited()

    package init(_ address: Address) { self.address = address }
  }

  package typealias Completion = (Result<RESPValue, RedisError>) -> Void

  package let loop: IOLoop
  /// Receives why commands cannot be sent from now on, one sentence for the operator; nil once they can. On the loop.
  package var onChange: (_ problem: String?) -> Void = { _ in }
  /// Receives the messages of the channel. On the loop.
  package var onMessage: ([UInt8]) -> Void = { _ in }
  private var problem: String? = "The server has not connected to it yet."

  private var configuration: Configuration
  private let resolver: NameResolver
  private var connector: Connector?
  private(set) var connection: RedisConnection?
  private(set) var backOff: BackOff
  /// Since when the connection is ready; nil while it is not.
  private var readyAt: Deadline?
  private var timer: Channel?
  private var isClosed = false

  /// Creates a client that has not connected. On any thread.
  package init(_ configuration: Configuration, loop: IOLoop) {
    self.configuration = configuration
    self.loop = loop
    resolver = NameResolver(loop: loop)
    backOff = BackOff(least: configuration.limits.leastBackOff, longest: configuration.limits.longestBackOff)
  }

  package var facts: RedisFacts { connection?.facts ?? RedisFacts(.null) }
  package var isReady: Bool { connection?.isReady ?? false }

  /// - Parameter completion: Receives reply or error, exactly once, on the loop; at once if the client is not ready.
  package func send(_ command: [[UInt8]], until deadline: Deadline, _ completion: @escaping Completion) {
    loop.assertCurrent()
    guard let connection, connection.isReady else { return completion(.failure(.unavailable)) }
    connection.send(command, until: deadline, completion)
  }

  /// Runs a script by its digest, and by its text if the server does not have it.
  package func run(
    _ script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]], until deadline: Deadline,
    _ completion: @escaping Completion
  ) {
    func command(_ name: String, _ script: [UInt8]) -> [[UInt8]] {
      [Array(name.utf8), script, Array("\(keys.count)".utf8)] + keys + arguments
    }
    guard let digest = script.digest else { return send(command("EVAL", script.source), until: deadline, completion) }
    send(command("EVALSHA", digest), until: deadline) { [self] result in
      guard case .failure(.refused(let text)) = result, text.starts(with: Array("NOSCRIPT".utf8)) else {
        return completion(result)
      }
      send(command("EVAL", script.source), until: deadline, completion)
    }
  }

  /// Logs in with these for all connections from now on. A connection that is open stays.
  package func use(user: String?, password: SecretBytes?) {
    loop.assertCurrent()
    (configuration.user, configuration.password) = (user, password)
  }

  /// Connects, and stays connected until `close`.
  package func start() {
    loop.assertCurrent()
    guard connector == nil, connection == nil, !isClosed else { return }
    let deadline = loop.now.advanced(by: configuration.limits.connect)
    let report = { (outcome: Connector.ConnectResult) in self.connected(outcome, until: deadline) }
    connector =
      switch configuration.address {
      case .tcp(let host, let port):
        Connector(to: host, port: port, loop: loop, resolver: resolver, until: deadline, report: report)
      case .unix(let path): Connector(to: path, loop: loop, resolver: nil, until: deadline, report: report)
      }
  }

  private func connected(_ outcome: Connector.ConnectResult, until deadline: Deadline) {
    connector = nil
    guard !isClosed else {
      if case .success(let channel) = outcome { channel.close() }
      return
    }
    switch outcome {
    case .failure(let error): lost(error.description)
    case .success(let channel):
      connection = RedisConnection(channel, configuration, of: self)
      connection?.start(until: deadline)
    }
  }

  func becameReady() {
    readyAt = loop.now
    change(nil)
  }

  func stalled(_ isStalled: Bool) { change(isStalled ? "It has stopped to respond." : nil) }

  /// The connection has ended, for a reason in one sentence.
  func lost(_ reason: String) {
    connection = nil
    change(reason)
    guard !isClosed else { return }
    let hasLasted = readyAt.map { loop.now >= $0.advanced(by: configuration.limits.lasting) } ?? false
    if hasLasted { backOff.succeeded() }
    // Without jitter, which only shortens the pause, a server of no use gets two connections a second at most.
    backOff.failed(at: loop.now, jitter: readyAt != nil && !hasLasted ? 0 : .random(in: 0...1))
    readyAt = nil
    if timer == nil { timer = loop.openTimer() }
    timer?.sleep(until: backOff.until, self)
  }

  private func change(_ new: String?) {
    guard problem != new else { return }
    problem = new
    onChange(new)
  }

  /// Ends the connection. Commands without a reply fail.
  package func close() {
    loop.assertCurrent()
    isClosed = true
    connector?.cancel()
    connector = nil
    connection?.close()
    connection = nil
    timer?.close()
    timer = nil
  }
}

extension RedisClient: ChannelDelegate {
  package func channel(_ channel: Channel, became readiness: Readiness) {
    if readiness == .timedOut { start() }
  }
}
