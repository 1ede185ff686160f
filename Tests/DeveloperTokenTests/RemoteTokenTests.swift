import Cryptography
import Dispatch
import HTTPMessages
import Locks
import TestSupport
import Testing

@testable import DeveloperToken

/// A minter whose agent signs, fails, or waits, as the test says.
private final class RemoteGround: Sendable {
  let minter: TokenMinter
  let agent: ScriptedAgent
  private let gate: Gate
  private let directory: TemporaryDirectory

  private final class Gate: Sendable {
    let monitor = Monitor()
    let state = Locked((isOpen: true, fails: false))

    func pass() -> Bool {
      monitor.lock()
      defer { monitor.unlock() }
      while !state.withLock({ $0.isOpen }) { monitor.wait() }
      return !state.withLock { $0.fails }
    }
  }

  init(failureLifetime: Duration = .seconds(3600)) throws {
    directory = try TemporaryDirectory()
    let gate = Gate()
    self.gate = gate
    let key = try Samples.key()
    agent = try ScriptedAgent { data in
      guard gate.pass(), let response = try? ScriptedAgent.response(data, by: key) else {
        return .send(ScriptedAgent.string([5]))
      }
      return .send(response)
    }
    let remote = try RemoteSigner(
      .agent(socket: agent.socket), key, in: directory, timeout: .seconds(60), failureLifetime: failureLifetime)
    let publicHalf = try SigningKey(remote, keyID: Samples.keyID())
    minter = try TokenMinter(key: publicHalf, team: Samples.team(), policy: TokenPolicy())
  }

  deinit { hold(false) }

  /// Lets the agent wait with each signature, or go on.
  func hold(_ isHeld: Bool = true) {
    gate.monitor.withLock {
      gate.state.withLock { $0.isOpen = !isHeld }
      gate.monitor.broadcast()
    }
  }

  func fail(_ fails: Bool = true) { gate.state.withLock { $0.fails = fails } }

  func request(
    ttl: Int? = nil, _ client: String = "a", at now: Int = Samples.now
  ) throws(TokenError) -> TokenMinter.Answer {
    try minter.request(ttl: ttl, for: client) { now }
  }

  /// The token that a request waits for.
  func awaited(ttl: Int? = nil, _ client: String = "a", at now: Int = Samples.now) throws -> AwaitedToken {
    guard case .waiting(let token) = try request(ttl: ttl, client, at: now) else {
      throw TestFailure("The token is there already.")
    }
    return token
  }

  /// The token that is there already.
  func ready(ttl: Int? = nil, at now: Int = Samples.now) throws -> MintedToken {
    guard case .ready(let document) = try request(ttl: ttl, at: now) else {
      throw TestFailure("The token is not there.")
    }
    return document.token
  }

  /// What the caller has in the end, which a token that is being signed may delay.
  func outcome(ttl: Int? = nil, at now: Int = Samples.now) async -> Result<TokenDocument, TokenError> {
    do throws(TokenError) {
      switch try request(ttl: ttl, at: now) {
      case .ready(let document): return .success(document)
      case .waiting(let token): return await token.get()
      }
    } catch { return .failure(error) }
  }

  /// The error of a request.
  func refusal(ttl: Int? = nil, _ client: String = "a", at now: Int = Samples.now) -> TokenError? {
    do throws(TokenError) { _ = try request(ttl: ttl, client, at: now) } catch { return error }
    return nil
  }
}

@Suite("Tokens of a remote signer", .otherPrograms)
struct RemoteTokenTests {
  private let ground: RemoteGround

  init() throws { ground = try RemoteGround() }

  private var half: Int { Samples.now + 21_600 }

  @Test("are signed once for all callers with the same claims")
  func shared() async throws {
    ground.hold()
    let waiting = try (0..<8).map { try ground.awaited("\($0)") }
    ground.hold(false)
    var tokens: Set<String> = []
    for token in waiting { tokens.insert(try await token.get().get().token.string) }
    #expect(tokens.count == 1 && ground.agent.requests == 1)
    #expect(try ground.ready().string == tokens.first)
    #expect(ground.minter.signatureCount == 1)
  }

  @Test("stay in use while another is signed at half of their life, and when that fails")
  func renewal() async throws {
    let first = try await ground.awaited().get().get().token
    ground.hold()
    for _ in 0..<3 { #expect(try ground.ready(at: half) === first) }
    try await until("the agent has the second request") { ground.agent.requests == 2 }
    ground.hold(false)
    try await until("the new token is there") { try ground.ready(at: half) !== first }
    let second = try ground.ready(at: half)
    ground.fail()
    let later = half + 21_600
    #expect(try ground.ready(at: later) === second)
    try await until("the failure is known") { ground.minter.key.remote?.failure != nil }
    #expect(try ground.ready(at: later) === second)
    // After half of its life, no caller gets it.
    guard case .failure(.signer) = await ground.outcome(at: later + 1) else {
      Issue.record("The caller got a token.")
      return
    }
  }

  @Test("are due for at most 16 places of a client, and 64 in all, and any number of callers shares a place")
  func places() async throws {
    ground.hold()
    var waiting: [AwaitedToken] = []
    for client in 0..<4 {
      for number in 0..<16 { waiting.append(try ground.awaited(ttl: 60 + 16 * client + number, "\(client)")) }
      if client == 0 { #expect(ground.refusal(ttl: 300, "0") == .signerBusy) }
    }
    #expect(ground.refusal(ttl: 300, "other") == .signerBusy)
    for _ in 0..<20 { waiting.append(try ground.awaited(ttl: 60, "other")) }
    // Nor are more signed for no caller.
    #expect(try !ground.minter.hasToken { Samples.now })
    ground.hold(false)
    for token in waiting { _ = try await token.get().get() }
    #expect(ground.agent.requests == 64)
    _ = try await ground.awaited(ttl: 300, "other").get().get()
  }

  @Test("are signed in turns by client, so that one with many delays only its own")
  func turns() {
    func key(_ number: Int) -> TokenCache.Key { TokenCache.Key(ttl: number, origins: []) }
    var due = DueTokens()
    for (number, client) in [(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "b")] {
      let hasPlace = due.add(AwaitedToken(key(number), client)) { 0 }
      #expect(hasPlace)
    }
    let isAdded = due.addRenewal(of: key(6)) { 0 }
    let begins = [due.begins(), due.begins()]
    #expect(isAdded && begins == [true, false])
    var order: [Int] = []
    while let (key, _, _) = due.next() { order.append(key.ttl) }
    let beginsAgain = due.begins()
    #expect(order == [1, 4, 6, 2, 5, 3] && beginsAgain)
  }

  @Test("keep the place of a caller that has gone away until they are signed")
  func cancelled() async throws {
    ground.hold()
    for number in 0..<16 {
      let token = try ground.awaited(ttl: 60 + number)
      let task = Task { await token.get() }
      task.cancel()
      guard case .failure(.signerBusy) = await task.value else {
        Issue.record("The wait goes on.")
        return
      }
    }
    #expect(ground.refusal(ttl: 90) == .signerBusy)
    ground.hold(false)
    try await until("all are signed") { ground.minter.signatureCount == 16 }
    _ = try ground.ready(ttl: 75)
  }

  @Test("that cannot be signed are an error for all who wait, and at once for those who come then")
  func failure() async throws {
    ground.hold()
    ground.fail()
    let waiting = try (0..<4).map { try ground.awaited(ttl: 60 + $0) }
    ground.hold(false)
    for token in waiting {
      guard case .failure(.signer(let error)) = await token.get() else {
        Issue.record("The caller got a token.")
        return
      }
      #expect(error == ground.minter.key.remote?.failure)
    }
    guard case .signer? = ground.refusal(ttl: 70) else {
      Issue.record("The signer is asked again.")
      return
    }
    #expect(ground.agent.requests == 1)
  }

  @Test("come again when the signer does")
  func recovery() async throws {
    let ground = try RemoteGround(failureLifetime: .zero)
    ground.fail()
    guard case .failure(.signer) = try await ground.awaited().get() else {
      Issue.record("The caller got a token.")
      return
    }
    ground.fail(false)
    ground.minter.key.remote?.retry()
    try await until("the signer is known to be back") { ground.minter.key.remote?.failure == nil }
    _ = try await ground.awaited().get().get()
  }

  @Test("are signed ahead for the readiness, for which nothing waits")
  func readiness() async throws {
    #expect(try !ground.minter.hasToken { Samples.now })
    try await until("the token is there") { try ground.minter.hasToken { Samples.now } }
    #expect(ground.agent.requests == 1)
    let local = try Samples.minter()
    #expect(try local.hasToken { Samples.now })
  }

  @Test("have the time at which the signer's turn has come")
  func time() async throws {
    let now = Locked(Samples.now)
    guard
      case .waiting(let token) = try ground.minter.request(
        ttl: 600, for: "a",
        clock: {
          now.withLock { now in
            defer { now += 100 }
            return now
          }
        })
    else { throw TestFailure("The token is there already.") }
    #expect(try await token.get().get().now == Samples.now + 100)
  }
}
