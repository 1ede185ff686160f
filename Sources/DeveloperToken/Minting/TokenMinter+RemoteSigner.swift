import DequeModule
import Dispatch
import Locks

// Tokens of a signer outside of the server. It may take seconds, so event loops ask, and never wait.
extension TokenMinter {
  /// Returns the present token, or else what to wait for. Throws at once if the signer has just failed, or if too many
  /// wait for it.
  func request(
    _ key: TokenCache.Key, by remote: RemoteSigner, for client: String, clock: @escaping @Sendable () -> Int
  ) throws(TokenError) -> Answer {
    monitor.lock()
    defer { monitor.unlock() }
    switch cache.request(key, now: clock(), renewsAhead: true) {
    case .take(let document): return .ready(document)
    case .sign(let present?):
      renew(key, by: remote, clock)
      return .ready(present)
    case .sign(nil):
      do throws(TokenError) {
        if let failure = remote.presentFailure { throw .signer(failure) }
        let caller = try wait(for: key, client, clock)
        sign(by: remote)
        return .waiting(caller)
      } catch {
        cache.finish(key, nil)
        throw error
      }
    case .wait: return .waiting(try wait(for: key, client, clock))
    }
  }

  /// Returns whether there is a token with the default claims. If not, the remote signer signs one soon.
  public func hasToken(clock: @escaping @Sendable () -> Int) throws(TokenError) -> Bool {
    guard let remote = key.remote else {
      _ = try token(now: clock())
      return true
    }
    let key = try cacheKey(nil, [])
    monitor.lock()
    defer { monitor.unlock() }
    switch cache.request(key, now: clock(), renewsAhead: true) {
    case .take: return true
    case .wait: return false
    case .sign(let present):
      renew(key, by: remote, clock)
      return present != nil
    }
  }

  /// Signs a token ahead of requests, if the signer has not just failed, and if there is a place.
  private func renew(_ key: TokenCache.Key, by remote: RemoteSigner, _ clock: @escaping @Sendable () -> Int) {
    guard remote.presentFailure == nil, due.addRenewal(of: key, clock) else { return cache.finish(key, nil) }
    sign(by: remote)
  }

  private func wait(
    for key: TokenCache.Key, _ client: String, _ clock: @escaping @Sendable () -> Int
  ) throws(TokenError) -> AwaitedToken {
    let caller = AwaitedToken(key, client)
    guard due.add(caller, clock) else { throw .signerBusy }
    return caller
  }

  /// The longest time until the signer's turn comes: 10 s. A caller waits for as long, and then for one signature.
  private static let longestQueue = Duration.seconds(10)

  /// Signs what is due on the signer's queue, unless that is under way. The caller holds the lock.
  private func sign(by remote: RemoteSigner) {
    guard due.begins() else { return }
    remote.queue.async { self.signNext(by: remote) }
  }

  /// Signs one token, and then the next one behind what else waits for the signer.
  private func signNext(by remote: RemoteSigner) {
    guard let (key, since, clock) = monitor.withLock({ due.next() }) else { return }
    let now = clock()
    let isLate = ContinuousClock.now - since > Self.longestQueue
    _ = finish(key, isLate ? .failure(.signerBusy) : mint(key, now: now), now: now)
    remote.queue.async { self.signNext(by: remote) }
  }
}

/// A token that the signer is to sign, for one caller.
public final class AwaitedToken: Sendable {
  fileprivate let key: TokenCache.Key
  fileprivate let client: String
  private let result = OneShot<Result<TokenDocument, TokenError>>()

  init(_ key: TokenCache.Key, _ client: String) { (self.key, self.client) = (key, client) }

  func resume(_ result: Result<TokenDocument, TokenError>) { self.result.resume(result) }

  /// Returns the token. Cancelling the task ends the wait; the signature is made, and kept for other callers.
  public func get() async -> Result<TokenDocument, TokenError> {
    await withTaskCancellationHandler {
      await result.get()
    } onCancel: {
      resume(.failure(.signerBusy))
    }
  }
}

/// The tokens that a remote signer is to sign, and the callers that wait for each. A value, behind the minter's lock.
/// Clients take turns, so one with many tokens delays only its own. A caller that goes away does not give up the place
/// of its token before that is signed, so no more than ``most`` are due.
struct DueTokens {
  private struct Due {
    /// The client of the first caller; nil for a token that is renewed for none.
    let client: String?
    let clock: @Sendable () -> Int
    let since = ContinuousClock.now
    var callers: [AwaitedToken] = []
  }

  static let most = 64
  static let mostOfClient = 16

  private var due: [TokenCache.Key: Due] = [:]
  /// The tokens of each client that are not being signed, in the order of their arrival.
  private var lines: [String?: Deque<TokenCache.Key>] = [:]
  /// The clients with a line, in the order of their turns.
  private var turns: Deque<String?> = []
  private var isSigning = false

  /// Adds a token without a caller. Returns false if there is no place, or if it is due already.
  mutating func addRenewal(of key: TokenCache.Key, _ clock: @escaping @Sendable () -> Int) -> Bool {
    guard due.count < Self.most, due[key] == nil else { return false }
    add(key, of: nil, clock)
    return true
  }

  /// Adds a caller. Callers of one token share its place. Returns false if a new token gets no place.
  mutating func add(_ caller: AwaitedToken, _ clock: @escaping @Sendable () -> Int) -> Bool {
    if due[caller.key] == nil {
      let ofClient = due.values.count { $0.client == caller.client }
      guard due.count < Self.most, ofClient < Self.mostOfClient else { return false }
      add(caller.key, of: caller.client, clock)
    }
    due[caller.key]?.callers.append(caller)
    return true
  }

  private mutating func add(_ key: TokenCache.Key, of client: String?, _ clock: @escaping @Sendable () -> Int) {
    due[key] = Due(client: client, clock: clock)
    if lines[client] == nil { turns.append(client) }
    lines[client, default: []].append(key)
  }

  /// Returns whether signing begins now. Then ``next()`` is called until it returns nil.
  mutating func begins() -> Bool {
    defer { isSigning = true }
    return !isSigning
  }

  /// Returns the next token to sign, since when it is due, and its request's clock. It stays due until ``remove(_:)``.
  mutating func next() -> (key: TokenCache.Key, since: ContinuousClock.Instant, clock: @Sendable () -> Int)? {
    guard let client = turns.popFirst(), let key = lines[client]?.popFirst(), let next = due[key] else {
      isSigning = false
      return nil
    }
    if lines[client]?.isEmpty ?? true { lines[client] = nil } else { turns.append(client) }
    return (key, next.since, next.clock)
  }

  /// Removes a token. Returns the callers that wait for it.
  mutating func remove(_ key: TokenCache.Key) -> [AwaitedToken] {
    // Always empty without a remote signer, and each look-up is a hash.
    due.isEmpty ? [] : due.removeValue(forKey: key)?.callers ?? []
  }
}
