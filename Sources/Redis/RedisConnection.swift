import Bytes
import ClientTransport
import Cryptography
import DequeModule
import EventLoop
import Memory
import TLS

/// One connection to a server of Redis: TLS, the greeting, and commands whose replies come in the same order.
///
/// Confined to its loop.
final class RedisConnection: ByteTransportOwner {
  /// Nil once it has closed the connection.
  private weak var client: RedisClient?
  private let configuration: RedisClient.Configuration
  let transport: ByteTransport
  private var parser: RESPParser
  private var phase = Phase.greeting
  private var greetingDeadline = Deadline.never
  /// The commands without a reply, in order.
  private var pending: Deque<Pending> = []
  /// The earliest deadline of a command that has not been reported yet.
  private var nextDeadline = Deadline.never
  private var isStalled = false
  private var messageShare = MessageShare()
  /// Until when the connection is not read; nil while it is.
  private var pausedUntil: Deadline?

  /// What the server has said of itself.
  private(set) var facts = RedisFacts(.null)

  private enum Phase { case greeting, ready, ended }

  private struct Pending {
    let sentAt: Deadline
    let deadline: Deadline
    /// Nil once it was called.
    var completion: RedisClient.Completion?
  }

  init(_ channel: Channel, _ configuration: RedisClient.Configuration, of client: RedisClient) {
    (self.configuration, self.client) = (configuration, client)
    parser = RESPParser(configuration.limits.replies)
    transport = ByteTransport(
      channel, writeProgress: configuration.limits.silence, hold: MemoryHold(configuration.memory, for: nil))
  }

  private var now: Deadline { transport.now }
  private var limits: RedisClient.Limits { configuration.limits }
  var isReady: Bool { phase == .ready && !isStalled }

  func start(until deadline: Deadline) {
    greetingDeadline = deadline
    transport.owner = self
    transport.deadline = deadline
    // Settlements must not wait behind the connections to Apple.
    transport.channel.rank = .first
    transport.start()
    guard let context = configuration.tls, case .tcp(let host, _) = configuration.address else { return greet() }
    do throws(TLSError) {
      transport.secure(with: try TLSSession(context, host: host, applicationProtocols: []))
    } catch {
      end("\(error)")
    }
  }

  func transportBecameSecure(_ transport: ByteTransport) { greet() }

  private func greet() {
    transport.write { output in
      output.append("*")
      output.append(decimal: configuration.password == nil ? 4 : 7)
      output.append("\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")
      if let password = configuration.password {
        output.append("$4\r\nAUTH\r\n")
        output.append(bulk: Array((configuration.user ?? "default").utf8).span)
        password.withBytes { output.append(bulk: $0) }
      }
      output.append("$7\r\nSETNAME\r\n$21\r\nmusickit-token-server\r\n")
    }
    wait(until: greetingDeadline) { [self] in greeted($0, by: "HELLO") }
    if configuration.database != 0 { greet(["SELECT", "\(configuration.database)"]) }
    if let channel = configuration.channel {
      transport.write { $0.append(command: [Array("SUBSCRIBE".utf8), channel]) }
    } else {
      greet(["PING"])
    }
  }

  private func greet(_ command: [String]) {
    transport.write { $0.append(command: command.map { Array($0.utf8) }) }
    wait(until: greetingDeadline) { [self] in greeted($0, by: command[0]) }
  }

  private func greeted(_ result: Result<RESPValue, RedisError>, by command: String) {
    switch result {
    case .success(let reply):
      if command == "HELLO" {
        facts = RedisFacts(reply)
        if facts.mode == "sentinel" { end(RedisFacts.sentinel) }
      }
      if command == "PING" { becomeReady() }
    case .failure(.refused(let text)): end(Self.refusal(of: command, text))
    case .failure: break
    }
  }

  private func becomeReady() {
    guard phase == .greeting else { return }
    phase = .ready
    rearm()
    client?.becameReady()
  }

  private static func refusal(of command: String, _ text: [UInt8]) -> String {
    let words = Printable.quote(ByteString(text), limit: 100)
    return switch true {
    case text.starts(with: Array("NOAUTH".utf8)): "It wants a password. Write shared.passwordFile."
    case text.starts(with: Array("WRONGPASS".utf8)): "It refuses the user or the password."
    case command == "HELLO" && text.starts(with: Array("ERR unknown".utf8)):
      "It does not speak RESP 3. The server needs Redis 6 or later, or Valkey."
    default: "It refuses the command \(command): \(words)."
    }
  }

  func send(_ command: [[UInt8]], until deadline: Deadline, _ completion: @escaping RedisClient.Completion) {
    guard pending.count < limits.pending, transport.backlog < limits.backlog else {
      return completion(.failure(.overloaded))
    }
    transport.write { $0.append(command: command) }
    wait(until: deadline, completion)
  }

  private func wait(until deadline: Deadline, _ completion: @escaping RedisClient.Completion) {
    guard phase != .ended else { return completion(.failure(.unavailable)) }
    pending.append(Pending(sentAt: now, deadline: deadline, completion: completion))
    if deadline < nextDeadline || pending.count == 1 {
      nextDeadline = min(nextDeadline, deadline)
      rearm()
    }
  }

  /// Sets the deadline of the transport: a command's deadline, a stall, the end after a long silence, or the next PING.
  private func rearm() {
    guard phase != .ended else { return }
    var deadline = nextDeadline
    if phase == .greeting { deadline = min(deadline, greetingDeadline) }
    if phase == .ready {
      let oldest = pending.first?.sentAt
      let due = oldest?.advanced(by: isStalled ? limits.silence : limits.stall) ?? now.advanced(by: limits.rest)
      deadline = min(deadline, due)
    }
    if let pausedUntil { deadline = min(deadline, pausedUntil) }
    transport.deadline = deadline
  }

  func transportReceived(_ transport: ByteTransport) {
    do throws(RESPError) {
      try receive()
    } catch {
      end("\(error)")
    }
  }

  private func receive() throws(RESPError) {
    var start = Deadline.now
    while phase != .ended, pausedUntil == nil {
      let bytes = transport.unread
      var position = 0
      let value = try parser.next(in: bytes.span, from: &position)
      transport.consume(position)
      guard let value else { return }
      guard case .push(let parts) = value else {
        // The number of replies is this client's own choice. Only messages come without a command.
        try replied(value)
        start = .now
        continue
      }
      pushed(parts)
      let end = Deadline.now
      if let time = messageShare.add(from: start, to: end) { pause(until: time) }
      start = end
    }
  }

  private func replied(_ value: RESPValue) throws(RESPError) {
    guard let answered = pending.popFirst() else {
      // The reply to SUBSCRIBE is a message, unless the server refuses it.
      guard phase == .greeting, case .error(let text) = value else { throw .malformed }
      return end(Self.refusal(of: "SUBSCRIBE", text))
    }
    if isStalled {
      isStalled = false
      client?.stalled(false)
    }
    if pending.isEmpty { nextDeadline = .never }
    rearm()
    if case .error(let text) = value {
      answered.completion?(.failure(.refused(text)))
      // After a failover the address may lead to the new primary.
      if text.isError("READONLY") { end("It is a read-only replica.") }
    } else {
      answered.completion?(.success(value))
    }
  }

  private func pushed(_ parts: [RESPValue]) {
    guard let kind = parts.first?.bytes else { return }
    if kind.elementsEqual("subscribe".utf8) { return becomeReady() }
    guard kind.elementsEqual("message".utf8), parts.count == 3, let payload = parts[2].bytes else { return }
    client?.onMessage(payload)
  }

  /// Leaves the rest of a flood of messages for later.
  private func pause(until time: Deadline) {
    guard phase != .ended else { return }
    pausedUntil = time
    transport.isReading = false
    rearm()
  }

  func transportTimedOut(_ transport: ByteTransport) {
    let wasPaused = pausedUntil.map { now >= $0 } ?? false
    if wasPaused {
      pausedUntil = nil
      transport.isReading = true
      transportReceived(transport)
    }
    guard phase != .ended else { return }
    if phase == .greeting, now >= greetingDeadline { return end("It did not finish the greeting in time.") }
    expire()
    guard phase == .ready else { return rearm() }
    guard let oldest = pending.first?.sentAt else {
      return wasPaused ? rearm() : send([Array("PING".utf8)], until: now.advanced(by: limits.silence)) { _ in }
    }
    if now >= oldest.advanced(by: limits.silence) { return end("It has stopped to respond.") }
    if !isStalled, now >= oldest.advanced(by: limits.stall) {
      isStalled = true
      client?.stalled(true)
    }
    rearm()
  }

  /// Reports the commands whose deadline has passed.
  private func expire() {
    guard now >= nextDeadline else { return }
    var expired: [RedisClient.Completion] = []
    nextDeadline = .never
    for index in pending.indices {
      guard let completion = pending[index].completion else { continue }
      if pending[index].deadline <= now {
        expired.append(completion)
        pending[index].completion = nil
      } else {
        nextDeadline = min(nextDeadline, pending[index].deadline)
      }
    }
    for completion in expired { completion(.failure(.timedOut)) }
  }

  func transportEnded(_ transport: ByteTransport, _ end: ByteTransportEnd) {
    switch end {
    case .closed:
      finish(phase == .greeting ? "It closed the connection during the greeting." : "It closed the connection.")
    case .failed(let error): finish("The connection broke (\(error)).")
    case .failedTLS(let error): finish("\(error)")
    case .stalled: finish("It does not read commands.")
    case .dead, .ended: finish("The connection was closed.")
    }
  }

  private func end(_ reason: String) {
    transport.abort()
    finish(reason)
  }

  /// Ends the connection without a report.
  func close() {
    client = nil
    end("The connection was closed.")
  }

  private func finish(_ reason: String) {
    guard phase != .ended else { return }
    phase = .ended
    let completions = pending.compactMap(\.completion)
    pending = []
    for completion in completions { completion(.failure(.unavailable)) }
    client?.lost(reason)
  }
}

/// What a server says of itself in its reply to HELLO. It comes from outside, so it may be anything.
package struct RedisFacts: Sendable, Equatable {
  /// Name and version, such as `redis 7.0.15`. Nil if the server does not say.
  package let name: String?
  /// `standalone`, `cluster` or `sentinel`.
  package let mode: String?
  /// `master` or `replica`.
  package let role: String?

  /// Why a Sentinel is of no use as a store.
  static let sentinel = "It is a Sentinel, which stores nothing. Write the address of the primary into shared.url."

  init(_ reply: RESPValue) {
    func text(_ name: String) -> String? {
      guard let parts = reply.elements,
        let index = parts.indices.first(where: {
          $0.isMultiple(of: 2) && parts[$0].bytes?.elementsEqual(name.utf8) == true
        }), index + 1 < parts.count, let bytes = parts[index + 1].bytes, bytes.count <= 40,
        bytes.allSatisfy({ (0x21...0x7E).contains($0) })
      else { return nil }
      return String(decoding: bytes, as: UTF8.self)
    }
    name = text("server").map { server in text("version").map { "\(server) \($0)" } ?? server }
    (mode, role) = (text("mode"), text("role"))
  }
}

extension [UInt8] {
  /// Whether this is the text of an error with this code. Redis 6 puts text of its own before the error of a script's
  /// command: `ERR Error running script (call to f_…): @user_script:1: -READONLY You can't write …`.
  package func isError(_ code: String) -> Bool { starts(with: Array(code.utf8)) || contains(Array("-\(code) ".utf8)) }
}

/// The time that messages of a channel take of an event loop: a part, so that a flood of them does not delay its callers.
struct MessageShare: Sendable {
  /// The part of the time: a fifth. Callers have the rest.
  static let part = 5
  /// The time that messages may take in a row: 500 µs. A caller who comes meanwhile waits no longer.
  static let most = Duration.microseconds(500)

  /// When the time that messages have taken is a fifth of the time that has passed.
  private var restedAt = Deadline(nanoseconds: 0)

  /// Adds the time that messages took. Returns until when the loop reads no further ones; nil if it may at once.
  mutating func add(from start: Deadline, to end: Deadline) -> Deadline? {
    restedAt = max(restedAt, start).advanced(by: end.duration(since: start) * Self.part)
    return restedAt > end.advanced(by: Self.most * (Self.part - 1)) ? restedAt : nil
  }
}
