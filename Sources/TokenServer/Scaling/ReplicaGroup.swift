import Bytes
import EventLoop
import Locks
import Logging
import Memory
import Redis
import ServerSettings
import TLS

/// The replicas that share a store, as this one sees them. Every 100 ms it settles with the others: one pipelined round
/// trip with its heartbeat and the scripts of the participants. The other loops only have a client for their own commands.
///
/// Confined to the first loop, except where a method says otherwise.
final class ReplicaGroup: @unchecked Sendable {
  // Sendable by confinement. What other threads read is behind the lock.

  /// The time between two settlements: 100 ms.
  private static let interval = Duration.milliseconds(100)
  /// The time for a reply, `shared.timeout`. A caller who waits for the store waits no longer, and what a replica grants
  /// without the knowledge of others is what it grants in one interval and this time.
  var timeout: Duration { settings.timeout }
  /// The time after its last heartbeat for which a replica counts, in milliseconds: 1,000, ten settlements.
  private static let lifetime = Array("1000".utf8)
  /// The most replicas of a group: 1,024, ten times what a store serves. With more, each would grant next to nothing.
  private static let most: Int64 = 1024

  /// The random number that stands for this process.
  let id = UInt64.random(in: 1...UInt64.max)
  let clients: [RedisClient]
  var client: RedisClient { clients[0] }

  /// The problem of a store that is connected, and does not reply as it should.
  private var noReply: String { "It did not respond within \(Int(timeout / .milliseconds(1))) ms." }
  private let settings: Settings.Shared
  /// The trusted CAs for the store, which a reload replaces; nil without TLS.
  private let authorities: TLSClientContext?
  private let throttle: Throttle
  private var participants: [any GroupParticipant] = []
  private var timer: Channel?
  private var sentAt = Deadline(nanoseconds: 0)
  /// The problem that the log has last been told of; nil after its end.
  private var reported: String?
  /// What this replica tells the others of itself, and what it has told them before a reload.
  private var facts: (present: GroupFacts, former: GroupFacts?)
  private let shared: Locked<Status>

  struct Status {
    var state = GroupState()
    /// Why the store is of no use at present; nil while it is.
    var problem: String?
    /// In what other replicas at the store differ from this one, so that they do not share it with this one.
    var differences: [GroupFacts.Part] = []
    /// Since the start.
    var counts = GroupCounts()
  }

  /// Creates a group that has not connected. On any thread.
  init(
    _ settings: Settings.Shared, _ files: StoreFiles, _ facts: GroupFacts, loops: [IOLoop], memory: MemoryBudget,
    logger: Logger
  ) {
    self.settings = settings
    self.facts = (facts, nil)
    authorities = files.authorities
    throttle = Throttle(logger)
    let channel = Self.key("events", prefix: settings.keyPrefix)
    clients = loops.enumerated().map { index, loop in
      var configuration = RedisClient.Configuration(settings, files)
      configuration.memory = memory
      // One loop has the messages for all.
      if index == 0 { configuration.channel = channel }
      return RedisClient(configuration, loop: loop)
    }
    shared = Locked(Status(problem: "The server has not connected to it yet."))
  }

  private var loop: IOLoop { client.loop }

  /// The name of a key. In Cluster mode all are in one slot by their hash tag, as scripts need it. On any thread.
  func key(_ name: String) -> [UInt8] { Self.key(name, prefix: settings.keyPrefix) }

  static func key(_ name: String, prefix: String) -> [UInt8] { Array("{\(prefix)}:\(name)".utf8) }

  var channel: [UInt8] { key("events") }

  /// Returns the bytes before the payload of a message. On any thread.
  func header(_ kind: GroupMessage.Kind) -> [UInt8] { GroupMessage.header(kind, from: id) }

  func client(on loop: IOLoop) -> RedisClient? { clients.first { $0.loop === loop } }

  /// On any thread.
  var status: Status { shared.withLock { $0 } }

  /// Connects, and settles from now on. On any thread.
  func start(_ participants: [any GroupParticipant]) {
    for client in clients.dropFirst() { client.loop.post { client.start() } }
    loop.post {
      self.participants = participants
      for participant in participants { participant.changed(GroupState()) }
      self.client.onChange = { self.changed($0) }
      self.client.onMessage = { self.received($0) }
      self.client.start()
      let timer = self.loop.openTimer()
      self.timer = timer
      timer.sleep(until: self.loop.now.advanced(by: Self.interval), self)
    }
  }

  /// Uses the secret of another signing key, and other rates, from now on. On any thread.
  func use(_ secret: GroupSecret) {
    loop.post {
      if self.facts.present != secret.facts { self.facts = (secret.facts, self.facts.present) }
      for participant in self.participants { participant.use(secret) }
    }
  }

  /// Logs in to the store as this user, and trusts these CAs, for all connections from now on. On any thread.
  func use(_ files: StoreFiles, user: String?) {
    authorities?.replace(by: files.authorities)
    for client in clients { client.loop.post { client.use(user: user, password: files.password) } }
  }

  /// Ends all connections, and tells the others that this replica has ended. On any thread.
  func close() {
    for client in clients.dropFirst() { client.loop.post { client.close() } }
    loop.post {
      self.timer?.close()
      self.timer = nil
      self.client.send([Array("ZREM".utf8), self.key("members"), self.member], until: self.loop.now) { _ in }
      self.loop.atEndOfTurn { self.client.close() }
    }
  }

  var member: [UInt8] { Array(String(id, radix: 16).utf8) }

  /// Records the heartbeat, and counts the replicas whose last one is recent, by the store's clock. One of the future is
  /// from before the clock was set back. Reply: the number, and what replicas say of themselves, unless all say the same.
  private static let heartbeat = RedisScript(
    """
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if ARGV[4] ~= '' then redis.call('ZREM', KEYS[2], ARGV[4]) end
    for i, own in ipairs({ARGV[1], ARGV[3]}) do
      redis.call('ZADD', KEYS[i], now, own)
      redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now - ARGV[2])
      redis.call('ZREMRANGEBYSCORE', KEYS[i], '(' .. now + ARGV[2], '+inf')
      redis.call('PEXPIRE', KEYS[i], 60000)
    end
    local facts = redis.call('ZCARD', KEYS[2]) > 1 and redis.call('ZRANGE', KEYS[2], 0, ARGV[5])
    return {redis.call('ZCARD', KEYS[1]), facts or {}}
    """)

  private func settle() {
    let now = loop.now
    sentAt = now
    let arguments = [
      member, Self.lifetime, facts.present.text, facts.former?.text ?? [], Array("\(GroupFacts.mostOthers)".utf8),
    ]
    facts.former = nil
    let keys = [key("members"), key("facts")]
    run(ScriptCall(script: Self.heartbeat, keys: keys, arguments: arguments) { self.counted($0) }, at: now)
    for participant in participants { run(participant.settlement(at: now), at: now) }
  }

  /// Settles for one participant now. On any thread.
  func settleNow(_ participant: any GroupParticipant) {
    loop.post { self.run(participant.settlement(at: self.loop.now), at: self.loop.now) }
  }

  /// Sends a message to the other replicas. On any thread.
  func publish(_ kind: GroupMessage.Kind, _ payload: [UInt8]) {
    loop.post {
      let message = self.header(kind) + payload
      let deadline = self.loop.now.advanced(by: self.timeout)
      self.client.send([Array("PUBLISH".utf8), self.channel, message], until: deadline) { result in
        if case .failure(let error) = result { self.note(error) }
      }
    }
  }

  private func run(_ call: ScriptCall?, at now: Deadline) {
    guard let call else { return }
    client.run(call.script, keys: call.keys, arguments: call.arguments, until: now.advanced(by: timeout)) { result in
      switch result {
      case .success(let value): call.completion(value)
      case .failure(let error):
        self.note(error)
        call.completion(nil)
      }
    }
  }

  private func counted(_ reply: RESPValue?) {
    let number = reply?.elements?.first?.number ?? 0
    if let parts = reply?.elements, parts.count == 2, (1...Self.most).contains(number) {
      shared.withLock { $0.counts.settlements += 1 }
      compare(parts[1].elements?.compactMap(\.bytes) ?? [])
      change(GroupState(isTogether: true, count: Int(number)), problem: nil)
    } else {
      shared.withLock { $0.counts.missed += 1 }
      // Without a connection there is a better reason.
      guard client.isReady else { return }
      let wrong = "Its replies are wrong: it counts \(number) replicas."
      change(GroupState(count: status.state.count), problem: reply == nil ? status.problem ?? noReply : wrong)
    }
  }

  private func compare(_ texts: [[UInt8]]) {
    let own = facts.present
    let found = texts.flatMap { own.differences(from: GroupFacts($0)) }
    let differences = GroupFacts.Part.allCases.filter { found.contains($0) }
    guard differences != status.differences else { return }
    shared.withLock { $0.differences = differences }
    guard !differences.isEmpty else {
      return throttle.end("different", "All replicas at the store have the same key, rates and version again.")
    }
    throttle.log(
      "different",
      "Other replicas at the store have \(differences.text). What differs they do not share with this one.")
  }

  private func note(_ error: RedisError) {
    guard case .refused(let text) = error else { return }
    // Without the full stop that some of the store's sentences have.
    let line = text.prefix(100).filter { (0x20..<0x7F).contains($0) }
    let words = String(decoding: line.last == UInt8(ascii: ".") ? line.dropLast() : line[...], as: UTF8.self)
    shared.withLock {
      $0.counts.refused += 1
      $0.problem = "It refuses commands: \(words)."
    }
    throttle.log("refused", "The store refuses commands, so this replica keeps limits of its own for now: \(words).")
  }

  private func changed(_ problem: String?) {
    if let problem { return change(GroupState(count: status.state.count), problem: problem) }
    // The store is of use again after a reply. Until then the reason for the lost connection no longer holds.
    shared.withLock { if $0.problem != nil { $0.problem = noReply } }
    settle()
  }

  private func change(_ new: GroupState, problem: String?) {
    let old = status.state
    shared.withLock { ($0.state, $0.problem) = (new, problem) }
    report(problem, new)
    guard old != new else { return }
    for participant in participants { participant.changed(new) }
  }

  private func report(_ problem: String?, _ state: GroupState) {
    guard problem != reported else { return }
    reported = problem
    if let problem {
      let part = state.count == 1 ? "the whole of its limits" : "its part of the limits of \(state.count) replicas"
      throttle.log(
        "unavailable",
        """
        The store \(settings.address) is of no use. \(problem) This replica keeps \(part), and its own cache, until \
        the store responds again.
        """)
    } else {
      throttle.end("unavailable", "The store responds again.", ["replicas": "\(state.count)"])
    }
  }

  private func received(_ bytes: [UInt8]) {
    guard let message = GroupMessage(bytes) else { return shared.withLock { $0.counts.invalidMessages += 1 } }
    guard message.sender != id else { return }
    shared.withLock { $0.counts.messages[message.kind, default: 0] += 1 }
    for participant in participants where participant.kind == message.kind {
      participant.received(message.payload, now: loop.now)
    }
  }
}

extension ReplicaGroup: ChannelDelegate {
  func channel(_ channel: Channel, became readiness: Readiness) {
    loop.assertCurrent()
    guard readiness == .timedOut, timer != nil else { return }
    // After a change to ready the last settlement may be recent.
    if loop.now >= sentAt.advanced(by: Self.interval / 2) { settle() }
    channel.sleep(until: loop.now.advanced(by: Self.interval), self)
  }
}

extension [GroupFacts.Part] {
  var text: String { map(\.words).joined(separator: " and ") }
}

struct GroupCounts: Sendable, Equatable {
  var settlements = 0
  var missed = 0
  var refused = 0
  var messages: [GroupMessage.Kind: Int] = [:]
  var invalidMessages = 0
}

extension RedisClient.Configuration {
  init(_ settings: Settings.Shared, _ files: StoreFiles) {
    switch settings.address {
    case .tcp(let host, let port, _): self.init(.tcp(host: host, port: port))
    case .unix(let path): self.init(.unix(path: path))
    }
    tls = files.authorities
    user = settings.user
    password = files.password
    database = settings.database
    // However far the store is, it is of use if it replies within `shared.timeout`.
    limits.stall = max(limits.stall, settings.timeout)
    limits.silence = max(limits.silence, settings.timeout * 2)
    limits.connect = max(limits.connect, settings.timeout * 2)
  }
}
