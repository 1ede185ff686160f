import CatalogProxy
import EventLoop
import Locks
import Redis
import UpstreamAdmission

/// Apple's quota and the circuit, which the replicas share. ``QuotaMember`` has the rules; here are the store's scripts.
///
/// `{prefix}:quota` is a hash with who leads and until when, what the leader has announced, and the line of turns. It
/// expires after a minute without a settlement. Confined to the group's loop, except ``QuotaGroup``'s functions.
final class GroupQuota: GroupParticipant, QuotaGroup, @unchecked Sendable {
  // Sendable by confinement.
  let kind = GroupMessage.Kind.quota
  private let group: ReplicaGroup
  private let gateway: CatalogGateway
  private var member: QuotaMember
  private var replicas = 1
  private var hasJoined = false
  /// Since when no settlement had a reply; nil after one that had.
  private var missedSince: Deadline?
  /// Whether a settlement before the next regular one has been requested. Many 429s may arrive at once.
  private let isSettlingSoon = Locked(false)

  /// The time without a reply after which this replica keeps a limit of its own: 1 s. The quota is learned over seconds,
  /// so one late settlement changes nothing.
  private static let patience = Duration.seconds(1)

  init(_ group: ReplicaGroup, _ gateway: CatalogGateway) {
    (self.group, self.gateway) = (group, gateway)
    member = QuotaMember(id: group.id, gateway.concurrency)
    gateway.use(self)
  }

  private var key: [UInt8] { group.key("quota") }

  // MARK: Settlement

  /// Renews or takes the lead, publishes this replica's report and the leader's announcement, and pauses the line after
  /// a new 429.
  ///
  /// Arguments: the replica, the channel, the beginning of a message, the report, the announcement, its term, the time
  /// between turns, the end of the pause, and the length of a new pause, in microseconds. Reply: the time, whether this
  /// replica leads, the term, and the last announcement.
  private static let settlement = RedisScript(
    """
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local stored = redis.call('HMGET', KEYS[1], 'leader', 'leads', 'term', 'announcement', 'pause')
    local leader, announcement = stored[1], stored[4] or ''
    local leads, term, pause = tonumber(stored[2] or 0) or 0, tonumber(stored[3] or 0) or 0, tonumber(stored[5] or 0) or 0
    if not (term >= 0 and term < 4294967296) then term = 0 end
    if not (pause <= now + 61000000) then pause = 0 end
    local function set(name, number) redis.call('HSET', KEYS[1], name, string.format('%.0f', number)) end
    if leader ~= ARGV[1] and not (leads >= now and leads <= now + 500000) then
      leader, term = ARGV[1], (term + 1) % 4294967296
      redis.call('HSET', KEYS[1], 'leader', leader)
      set('term', term)
    end
    if ARGV[4] ~= '' then redis.pcall('PUBLISH', ARGV[2], ARGV[3] .. ARGV[4]) end
    if leader == ARGV[1] then
      set('leads', now + 500000)
      if ARGV[5] ~= '' and tonumber(ARGV[6]) == term then
        local ends = tonumber(ARGV[8])
        announcement = ARGV[5]
        redis.call('HSET', KEYS[1], 'announcement', announcement)
        set('interval', tonumber(ARGV[7]))
        if pause > now or ends > now then set('line', math.max(ends, now)) end
        pause = ends
        set('pause', pause)
        redis.pcall('PUBLISH', ARGV[2], ARGV[3] .. announcement)
      end
    end
    local asked = tonumber(ARGV[9])
    if asked > 0 and now + asked > pause then
      set('pause', now + asked)
      set('line', now + asked)
    end
    redis.call('PEXPIRE', KEYS[1], 60000)
    return {now, leader == ARGV[1] and 1 or 0, term, announcement}
    """)

  func settlement(at now: Deadline) -> ScriptCall? {
    isSettlingSoon.withLock { $0 = false }
    if hasJoined, let missedSince, now.duration(since: missedSince) >= Self.patience {
      hasJoined = false
      member.left()
      gateway.leave(replicas, seed: group.id)
    }
    let report = gateway.quotaReport() ?? QuotaReport()
    let settlement = member.settlement(report, now: now.elapsed)
    // The parts change with the demand in each report.
    if hasJoined, let team = member.team { gateway.use(team, limit: member.limit) }
    let numbers: [Int64] = [Int64(settlement.term), settlement.interval, settlement.pauseEnds, settlement.pause]
    let parts = [group.member, group.channel, group.header(.quota), settlement.report, settlement.announcement]
    return ScriptCall(script: Self.settlement, keys: [key], arguments: parts + numbers.map { Array("\($0)".utf8) })
  }

  func settled(_ reply: RESPValue?, sentAt: Deadline, now: Deadline) {
    guard let reply = reply.flatMap({ QuotaMember.Reply($0) }) else {
      missedSince = missedSince ?? now
      return
    }
    missedSince = nil
    let effects = member.settled(reply, sentAt: sentAt.elapsed, now: now.elapsed)
    gateway.reported(at: sentAt.elapsed)
    if !hasJoined {
      hasJoined = true
      gateway.join(replicas, seed: group.id)
    }
    apply(effects)
  }

  func received(_ payload: ArraySlice<UInt8>, now: Deadline) {
    guard hasJoined else { return }
    apply(member.received(payload, now: now.elapsed))
  }

  private func apply(_ effects: QuotaMember.Effects) {
    if let team = effects.team { gateway.use(team, limit: member.limit) }
    if effects.settlesNow { settleSoon() }
    if let news = effects.circuit { gateway.learn(news, of: effects.replica, spread: .random(in: 0...1)) }
  }

  func changed(_ state: GroupState) {
    replicas = state.count
    member.changed(replicas: replicas)
  }

  // MARK: QuotaGroup

  /// Gives turns of the line. Arguments: the most turns, and how far ahead they may be, in microseconds. Reply: the number
  /// of turns, the first one, and the time between two, in microseconds.
  private static let lease = RedisScript(
    """
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local stored = redis.call('HMGET', KEYS[1], 'interval', 'pause', 'line')
    local interval = tonumber(stored[1] or 0) or 0
    if not (interval > 0 and interval <= 60000000) then return false end
    local pause, line = tonumber(stored[2] or 0) or 0, tonumber(stored[3] or 0) or 0
    if not (pause <= now + 61000000) then pause = 0 end
    -- The line is never longer, unless the clock was set.
    local most = math.max(pause, now + 100000 + interval)
    if not (line <= most) then
      line = most
      redis.call('HSET', KEYS[1], 'line', string.format('%.0f', line))
    end
    line = math.max(line, now - 25000, pause)
    local last = now + tonumber(ARGV[2])
    if line > last then return {0, line, interval} end
    local count = math.min(tonumber(ARGV[1]), math.floor((last - line) / interval) + 1)
    redis.call('HSET', KEYS[1], 'line', string.format('%.0f', line + count * interval))
    return {count, line, interval}
    """)

  func ask(for turns: TurnRequest) {
    let ahead = turns.ahead.components.seconds * 1_000_000 + turns.ahead.components.attoseconds / 1_000_000_000_000
    let arguments = ["\(turns.count)", "\(ahead)"].map { Array($0.utf8) }
    group.run(ScriptCall(script: Self.lease, keys: [key], arguments: arguments)) { [self] reply in
      let numbers = reply?.elements?.compactMap(\.number) ?? []
      gateway.take(
        numbers.count == 3 ? member.lease(count: numbers[0], start: numbers[1], interval: numbers[2]) : nil)
    }
  }

  func settleSoon() {
    let isFirst = isSettlingSoon.withLock { isSoon in
      defer { isSoon = true }
      return !isSoon
    }
    if isFirst { group.settleNow(self) }
  }

  func tell(_ news: CircuitNews) { group.publish(.quota, QuotaMember.message(news, of: group.id)) }
}

extension QuotaMember.Reply {
  /// Reads the reply of the script. Returns nil for anything else.
  fileprivate init?(_ value: RESPValue) {
    guard let parts = value.elements, parts.count == 4, let time = parts[0].number, let leads = parts[1].number,
      let term = parts[2].number.flatMap({ UInt32(exactly: $0) }), let announcement = parts[3].bytes
    else { return nil }
    self.init(time: time, leads: leads == 1, term: term, announcement: announcement)
  }
}
