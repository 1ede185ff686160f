import TestSupport
import Testing

@testable import EventLoop

/// The order in which a loop serves ready channels.
@Suite struct RankTests {
  @Test("a turn serves all ready channels of the first rank, then 16 of the second, then 64 of the last")
  func order() throws {
    let loop = try IOLoop.forTest(.epoll)
    let witness = Witness()
    let pairs = try [Rank.last: 150, .second: 40, .first: 10].mapValues { count in
      try (0..<count).map { _ in try Pair(on: loop) }
    }
    loop.loop.performAndWait {
      for (rank, pairs) in pairs {
        for pair in pairs {
          pair.channel.rank = rank
          pair.channel.watch(until: .never, witness)
        }
      }
    }
    loop.whileBusy {
      for rank in [Rank.last, .second, .first] { for pair in pairs[rank] ?? [] { pair.poke() } }
    }
    let served = witness.served.wait(for: 200)
    let turns = Dictionary(grouping: served, by: \.turn).sorted { $0.key < $1.key }.map { $0.value.map(\.rank) }
    let expected = [(10, 16, 64), (0, 16, 64), (0, 8, 22)].map { counts in
      [Rank](repeating: .first, count: counts.0) + [Rank](repeating: .second, count: counts.1)
        + [Rank](repeating: .last, count: counts.2)
    }
    #expect(turns == expected)
  }

  @Test("while the first rank is crowded, each turn also serves the others")
  func crowd() throws {
    let loop = try IOLoop.forTest(.epoll)
    let witness = Witness()
    let pairs = try [Rank.first: 640, .second: 32, .last: 128].mapValues { count in
      try (0..<count).map { _ in try Pair(on: loop) }
    }
    loop.loop.performAndWait {
      for (rank, pairs) in pairs {
        for pair in pairs {
          pair.channel.rank = rank
          pair.channel.watch(until: .never, witness)
        }
      }
    }
    loop.whileBusy {
      for rank in [Rank.first, .second, .last] { for pair in pairs[rank] ?? [] { pair.poke() } }
    }
    let served = witness.served.wait(for: 800)
    let turns = Dictionary(grouping: served, by: \.turn).sorted { $0.key < $1.key }.map { $0.value.map(\.rank) }
    for turn in turns.prefix(2) {
      #expect(turn.filter { $0 == .second }.count == 16)
      #expect(turn.filter { $0 == .last }.count == 64)
    }
  }

  @Test("nothing waits any more when a turn has served all that waited", arguments: [false, true])
  func drained(isCrowded: Bool) {
    let poller = Reports()
    var rank = LowerRank(.last, poller: poller, marker: -1)
    for count in [64, isCrowded ? 64 : 63] {
      poller.count = count
      var ready: [SlotToken] = []
      rank.take(into: &ready, at: .now, ifReadyOr: true)
    }
    #expect(rank.delay > .zero)
    rank.endLap()
    #expect(isCrowded == (rank.delay > .zero))
  }

  /// Reports as many ready channels as the test tells it.
  private final class Reports: Poller {
    let forgetsClosed = false
    var count = 0

    func update(_ descriptor: Int32, from old: Interest, to new: Interest, token: SlotToken) {}

    func wait(milliseconds: Int32, into ready: inout [SlotToken]) {
      ready += Array(repeating: SlotToken(index: 0, generation: 0), count: count)
    }
  }

  @Test(
    "a channel that waits is served by its new rank", arguments: [[Rank.last], [.second, .last], [.last, .first]])
  func change(_ ranks: [Rank]) throws {
    let loop = try IOLoop.forTest(.epoll)
    let witness = Witness()
    let (pair, other) = (try Pair(on: loop), try Pair(on: loop))
    let last = try #require(ranks.last)
    loop.loop.performAndWait {
      pair.channel.watch(until: .never, witness)
      for rank in ranks { pair.channel.rank = rank }
      other.channel.rank = .second
      other.channel.watch(until: .never, witness)
    }
    loop.whileBusy {
      pair.poke()
      other.poke()
    }
    #expect(witness.served.wait(for: 2).map(\.rank) == (last == .first ? [.first, .second] : [.second, .last]))
  }

  @Test("with poll(2), a channel of any rank is served")
  func poll() throws {
    let loop = try IOLoop.forTest(.poll)
    let witness = Witness()
    let pair = try Pair(on: loop)
    loop.loop.performAndWait {
      pair.channel.rank = .last
      pair.channel.watch(until: .never, witness)
    }
    pair.poke()
    #expect(witness.served.wait(for: 1).map(\.rank) == [.last])
  }

  private final class Witness: ChannelDelegate, Sendable {
    let served = Notes<(rank: Rank, turn: Int)>()

    func channel(_ channel: Channel, became readiness: Readiness) {
      if readiness == .ready { served.add((channel.rank, channel.loop.turns)) }
    }
  }
}
