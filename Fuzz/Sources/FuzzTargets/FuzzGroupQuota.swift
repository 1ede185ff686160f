import Bytes
import UpstreamAdmission

/// The input is what a store says to a replica that shares the quota, one item after another:
/// replies of settlements, and messages about 429s. Whatever it says, the limit stays within its bounds, and once the
/// store says nothing more, a request is sent within a minute.
func fuzzGroupQuota(_ bytes: [UInt8]) {
  var input = bytes[...]
  var replica = Replica()
  while let kind = input.popFirst() {
    replica.now += .milliseconds(10)
    switch kind % 4 {
    case 0, 1: replica.settle((0..<11).map { _ in input.take(Int(kind >> 2 & 7) + 1) }, Array(input.take(20)))
    case 2: replica.limit.pauseForRefusal(now: replica.now)
    default: replica.request(client: kind >> 2 & 3)
    }
    precondition((1...ConcurrencyLimits().maximum).contains(replica.limit.limit))
  }
  replica.checkThatItSends()
}

private struct Replica {
  var limit = ConcurrencyLimit<Int>()
  var now = Duration.seconds(1)
  private var permits: [ConcurrencyPermit] = []

  init() {
    limit.join(3, seed: 1, now: now)
  }

  mutating func settle(_ numbers: [Int64], _ parts: [UInt8]) {
    let report = limit.report(now: now)
    if let reply = QuotaReply(numbers, parts: parts, now: now - .milliseconds(1)) {
      keep(limit.use(reply, to: report, now: now))
    } else if report.turns != nil {
      keep(limit.missTurns(now: now))
    }
  }

  mutating func request(client: UInt8) {
    let caller = QuotaCaller(client: HashedText("\(client)"), share: 0.5, identity: "caller")
    if case .granted(let permit) = limit.acquire(.init(caller), waiter: 0, now: now) { permits.append(permit) }
    if permits.count > 2 { keep(limit.release(permits.removeFirst(), .limited(retryAfter: nil), now: now)) }
  }

  private mutating func keep(_ grants: [ConcurrencyLimit<Int>.Grant]) {
    permits += grants.map(\.permit)
  }

  mutating func checkThatItSends() {
    for permit in permits where !limit.release(permit, .answered, now: now).isEmpty { return }
    for _ in 0..<6200 {
      now += .milliseconds(10)
      let caller = QuotaCaller(client: "last", identity: "caller")
      if case .granted = limit.acquire(.init(caller), waiter: 1, now: now) { return }
      if !limit.advance(now: now).isEmpty { return }
      if limit.report(now: now).turns != nil, !limit.missTurns(now: now).isEmpty { return }
    }
    preconditionFailure("nothing is sent for a minute")
  }
}

extension ArraySlice<UInt8> {
  fileprivate mutating func take(_ count: Int) -> ArraySlice<UInt8> {
    defer { self = dropFirst(count) }
    return prefix(count)
  }

  /// Takes a number of so many bytes.
  fileprivate mutating func take(_ count: Int) -> Int64 {
    (take(count) as ArraySlice<UInt8>).reduce(0) { $0 << 8 | Int64($1) }
  }
}
