import Glibc
import TestSupport
import Testing

@testable import EventLoop

@Suite struct ChannelTests {
  @Test("a delegate is notified once for each watch", arguments: IOLoop.PollerKind.allCases)
  func once(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let heard = Listening()
    for count in 1...3 {
      loop.loop.performAndWait { pair.channel.watch(until: .never, heard) }
      pair.poke()
      heard.notes.wait(for: count)
    }
    loop.loop.performAndWait {}
    #expect(heard.notes.all == [.ready, .ready, .ready])
  }

  @Test(
    "a channel that is closed in the same turn as its event gets no event",
    arguments: IOLoop.PollerKind.allCases)
  func closedInSameTurn(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let pairs = try (0..<2).map { _ in try Pair(on: loop) }
    let isReady = Notes<Bool>()
    let reused = Notes<UInt32>()
    // The first delegate that is notified closes the other channel and opens a new channel in the freed slot.
    let tenant = Listening()
    var ends: [Int32] = [-1, -1]
    #expect(unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    let (own, far) = (ends[0], ends[1])
    let delegates = (0..<2).map { number in
      Listening { channel in
        guard isReady.all.isEmpty else { return }
        isReady.add(true)
        pairs[1 - number].channel.close()
        let next = channel.loop.open(Descriptor(owning: own))
        next.watch(until: .never, tenant)
        reused.add(next.token.index)
      }
    }
    loop.loop.performAndWait {
      for (pair, delegate) in zip(pairs, delegates) { pair.channel.watch(until: .never, delegate) }
      // Both are ready before the loop polls again.
      for pair in pairs { pair.poke() }
    }
    isReady.wait(for: 1)
    loop.loop.performAndWait {}
    let heard = delegates.map(\.notes.all)
    #expect(heard == [[.ready], [.cancelled]] || heard == [[.cancelled], [.ready]])
    #expect(pairs.map(\.channel.token.index).contains(reused.wait(for: 1)[0]))
    #expect(tenant.notes.all.isEmpty)
    close(far)
    #expect(tenant.notes.wait(for: 1) == [.ready])
  }

  @Test("closing a channel ends the wait of a task, once", arguments: IOLoop.PollerKind.allCases)
  func closing(_ kind: IOLoop.PollerKind) async throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let task = Task(executorPreference: loop.loop) {
      [await pair.channel.wait(for: .read, until: .never), await pair.channel.wait(for: .write, until: .never)]
    }
    loop.loop.performAndWait {}
    loop.loop.performAndWait {
      pair.channel.close()
      pair.channel.close()
    }
    #expect(await task.value == [.cancelled, .cancelled])
    let (sent, received) = try loop.get {
      var bytes: [UInt8] = []
      return (try? pair.channel.send([1].span), try? pair.channel.receive(into: &bytes, atMost: 10))
    }
    #expect(sent == nil)
    #expect(received == .end)
  }

  @Test(
    "a busy connection does not spin the loop, whatever its socket has pending",
    arguments: IOLoop.PollerKind.allCases, ["unread data", "a peer that has gone"])
  func busy(_ kind: IOLoop.PollerKind, trouble: String) throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let clock = try Pair(on: loop)
    let (heard, last) = (Listening(), Listening())
    loop.loop.performAndWait { pair.channel.watch(until: .never, heard) }
    pair.poke()
    if trouble != "unread data" { shutdown(pair.other, Int32(SHUT_RDWR)) }
    heard.notes.wait(for: 1)
    let before = try loop.get { loop.loop.turns }
    loop.loop.performAndWait {
      clock.channel.sleep(until: Deadline.now.advanced(by: .milliseconds(50)), last)
    }
    last.notes.wait(for: 1)
    let turns = try loop.get { loop.loop.turns } - before
    #expect(turns < 20)
  }

  @Test(
    "a wait for a deadline only, after one for bytes, ends at the deadline although bytes arrive, and spins no loop",
    arguments: IOLoop.PollerKind.allCases)
  func asleep(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let witness = Listening()
    let before = try loop.get { loop.loop.turns }
    loop.loop.performAndWait {
      pair.channel.watch(until: .never, witness)
      pair.channel.unwatch()
      pair.channel.sleep(until: Deadline.now.advanced(by: .milliseconds(50)), witness)
    }
    pair.poke()
    witness.notes.wait(for: 1)
    #expect(try loop.get { loop.loop.turns } - before < 20)
    // The next wait for bytes sees those that came meanwhile.
    loop.loop.performAndWait { pair.channel.watch(until: .never, witness) }
    witness.notes.wait(for: 2)
    #expect(witness.notes.all == [.timedOut, .ready])
  }

  @Test("a read returns at most the requested number of bytes", arguments: IOLoop.PollerKind.allCases)
  func bounded(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    for _ in 0..<10 { pair.poke() }
    let reads = try loop.get {
      var bytes: [UInt8] = []
      bytes.reserveCapacity(1000)
      return (0..<3).map { _ in try? pair.channel.receive(into: &bytes, atMost: 7) }
    }
    #expect(reads == [.bytes(7), .bytes(3), .wouldBlock])
  }

  @Test("a writer waits until the peer reads", arguments: IOLoop.PollerKind.allCases)
  func writing(_ kind: IOLoop.PollerKind) async throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let isFull = Notes<Bool>()
    let task = Task(executorPreference: loop.loop) {
      let bytes = [UInt8](repeating: 0, count: 65_536)
      while try pair.channel.send(bytes.span) > 0 {}
      isFull.add(true)
      return await pair.channel.wait(for: .write, until: .never)
    }
    isFull.wait(for: 1)
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while unsafe read(pair.other, &buffer, buffer.count) > 0 {}
    #expect(try await task.value == .ready)
  }
}
