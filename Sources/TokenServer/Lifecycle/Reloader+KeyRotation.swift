import Bytes
import CatalogProxy
import DeveloperToken
import Dispatch
import EventLoop
import Glibc
import Locks
import Logging
import ServerSettings
import Telemetry
import UpstreamAdmission

/// The rotation from the active key to the next one, on the reloader's queue.
extension Reloader {
  /// Adopts the keys of the current snapshot: continues the rotation if they are the same as before, or begins one.
  func adoptKeys(insteadOf previous: RuntimeSnapshot?) {
    if let before = previous?.minter.key, !current.minter.key.isSame(as: before) {
      noteKey(after: before, at: .notice, "Signing key replaced", "key_replaced")
    }
    let notBefore = current.settings.musickit.keys.next?.notBefore
    if current.source.nextKey == nil {
      rotation = nil
    } else if let previous, rotation != nil, previous.source.hasSameKeys(as: current.source),
      previous.signsWithNextKey == current.signsWithNextKey
    {
      rotation?.reloaded(notBefore: notBefore, now: monotonicTime)
    } else {
      rotation = KeyRotation(notBefore: notBefore, now: monotonicTime)
      rotationSerial += 1
      proofFinding = services.catalog == nil ? Self.unprovable : nil
    }
    publishKeys()
    rotateKeys()
  }

  /// Why a next key stays unproved without an upstream. Its probe shows only that the server can sign with it, and not
  /// that Apple Music knows it, so it signs only if the operator makes it the active one.
  private static let unprovable =
    "catalog.enabled is false, so the server cannot ask Apple Music about it. It signs only with state: \"active\"."

  /// Logs and records that another key signs.
  private func noteKey(
    after before: SigningKey, at level: Logger.Level, _ message: Logger.Message, _ event: StaticString
  ) {
    let (key, expiry) = (current.minter.key, tokenExpiries[before.keyID] ?? Glibc.time(nil))
    var metadata = key.metadata
    metadata["key.previous"] = "\(before.keyID)"
    metadata["tokens.expire"] = "\(CivilTime(secondsSinceEpoch: expiry))"
    logger.log(level: level, message, metadata: metadata)
    services.access.audit.write(
      KeyAuditRecord(
        event: event, keyID: "\(key.keyID)", fingerprint: key.fingerprint, previous: "\(before.keyID)",
        tokensExpire: expiry))
  }

  /// The time between two questions about a key that Apple Music refuses: 10 s.
  private static let judgingPause = Duration.seconds(10)

  /// Asks Apple Music about the key that signs, some seconds after the start or a reload with another key, unless it has
  /// accepted a token of that key; and again as long as it refuses them. So a server that gives out only tokens says, too,
  /// that they are worthless, and when they are not any more.
  func judgeKey() {
    guard let catalog = services.catalog else { return }
    let status = catalog.proxy.status
    let (isNew, now) = (judgedMinter !== current.minter, monotonicTime)
    // A next key that signs has been proved.
    let isUnjudged = isNew && !current.signsWithNextKey && status.tokenAcceptedAt == nil
    let isDue = status.isTokenRejected && (isNew || now - judgedAt >= Self.judgingPause)
    (judgedMinter, judgedAt) = (current.minter, isNew || isDue ? now : judgedAt)
    guard isUnjudged || isDue else { return }
    catalog.test(current.minter) { [self, minter = current.minter] result in
      queue.async { [self] in
        if current.minter === minter { judged(result, by: catalog, isFirst: isUnjudged) }
      }
    }
  }

  private func judged(_ result: TokenTest, by catalog: CatalogService, isFirst: Bool) {
    catalog.proxy.judged(result.verdict)
    guard isFirst else { return }
    let metadata = current.minter.key.metadata
    switch result.verdict {
    case .accepted: logger.info("Apple Music accepts tokens of the signing key.", metadata: metadata)
    case .refused:
      logger.error(
        """
        Apple Music refuses tokens of the signing key (401), so they are of no use to apps. \(result.reason ?? "") The \
        command doctor, with the same settings, checks key, clock and network.
        """, metadata: metadata)
    case .unknown, .abandoned: break
    }
  }

  func rotateKeys() {
    guard rotation != nil, let catalog = services.catalog else { return }
    if catalog.proxy.status.isTokenRejected { rotation?.suspect(now: monotonicTime) }
    switch rotation?.step(now: monotonicTime, wall: Glibc.time(nil)) {
    case .prove: prove(by: catalog)
    case .promote: sign(withNextKey: true, "Signing key promoted", "key_promoted")
    case .wait, nil: break
    }
  }

  private func prove(by catalog: CatalogService) {
    guard let next = current.source.nextKey else { return }
    do {
      let minter = try TokenMinter(key: next, team: current.minter.team, policy: current.minter.policy)
      catalog.test(minter) { [self, serial = rotationSerial] result in
        queue.async { [self] in
          // Otherwise a reload has begun another rotation meanwhile.
          if rotation != nil, rotationSerial == serial { proved(result) }
        }
      }
    } catch { proved(TokenTest(.unknown, "\(error)")) }
  }

  private func proved(_ result: TokenTest) {
    let change = rotation?.proved(result.verdict, now: monotonicTime, wall: Glibc.time(nil))
    proofFinding = result.reason
    guard let next = current.source.nextKey, let change else { return }
    var metadata = next.metadata
    if let reason = result.reason { metadata["reason"] = "\(reason)" }
    switch change {
    case .accepted: logger.notice("Next signing key proved", metadata: metadata)
    case .confirmed: break
    case .undecided(let pause):
      metadata["retry.after"] = "\(pause.components.seconds)s"
      logger.warning("Next signing key not proved: Apple Music gave no verdict on a token of it.", metadata: metadata)
    case .refused(let pause):
      metadata["retry.after"] = "\(pause.components.seconds)s"
      logger.error("Next signing key refused: Apple Music does not accept a token of it.", metadata: metadata)
      services.access.audit.write(
        KeyAuditRecord(event: "key_refused", keyID: "\(next.keyID)", fingerprint: next.fingerprint))
    case .fellBack:
      sign(withNextKey: false, "Signing key fell back: Apple Music refuses tokens of the next key.", "key_fell_back")
    }
    publishKeys()
    rotateKeys()
  }

  /// Lets the other key sign. Cached tokens of the key before are dropped.
  private func sign(withNextKey: Bool, _ message: Logger.Message, _ event: StaticString) {
    let before = current.minter.key
    do {
      install(try RuntimeSnapshot(current.source, of: services, replacing: current, signsWithNextKey: withNextKey))
    } catch {
      logger.error("Signing key not changed", metadata: ["reason": "\(error)"])
      rotation = KeyRotation(notBefore: rotation?.notBefore, now: monotonicTime + KeyRotation.firstPause)
      return
    }
    publishKeys()
    noteKey(after: before, at: withNextKey ? .notice : .error, message, event)
  }

  private func publishKeys() {
    let (source, expiries) = (current.source, tokenExpiries)
    var keys = [
      SigningKeys.Key(
        id: source.key.keyID, state: current.signsWithNextKey ? .replaced : .signing,
        lastProof: services.metrics.reloads.withLock { $0.lastSuccess },
        tokensExpireAt: current.signsWithNextKey ? expiries[source.key.keyID] : nil)
    ]
    if let next = source.nextKey, let rotation {
      keys.append(
        SigningKeys.Key(
          id: next.keyID, state: rotation.state, lastProof: rotation.lastProof, finding: proofFinding,
          tokensExpireAt: rotation.state == .signing ? nil : expiries[next.keyID]))
    }
    // A process before this one may have signed with a retired key until it ended.
    let lastOfEarlier = services.metrics.startTime + current.minter.policy.maxTTL
    keys += current.settings.musickit.keys.retired.map { id in
      SigningKeys.Key(id: id, state: .retired, tokensExpireAt: expiries[id] ?? lastOfEarlier)
    }
    // A key that a reload has replaced, and that the settings do not name any more.
    for (id, time) in expiries.sorted(by: { $0.value < $1.value }) where !keys.contains(where: { $0.id == id }) {
      keys.append(SigningKeys.Key(id: id, state: .retired, tokensExpireAt: time, isConfigured: false))
    }
    services.metrics.signingKeys.all = keys
  }

  private var monotonicTime: Duration { .nanoseconds(Int64(clamping: Deadline.now.nanoseconds)) }
}

extension SigningKey {
  /// The key in log lines.
  var metadata: Logger.Metadata { ["key.id": "\(keyID)", "key.fingerprint": "\(fingerprint)"] }
}

/// The state of every configured signing key, for `/readyz` and `/metrics`. The reloader keeps it up to date.
final class SigningKeys: Sendable {
  struct Key: Sendable, Equatable {
    let id: KeyID
    var state: SigningKeyState
    /// When the key was last proved, in seconds since 1970: for the active key, when it signed its probe.
    var lastProof: Int?
    /// Why the last proof was not accepted, in sentences. Nil if it was, or if there was none.
    var finding: String?
    /// The time until which callers may hold tokens, in seconds since 1970. Nil for a key that signs or never has.
    var tokensExpireAt: Int?
    /// Whether the settings name the key. Another one counts until its tokens have expired.
    var isConfigured = true

    /// The finding as the end of a sentence without its full stop; empty without one.
    fileprivate var reason: String { finding.map { ": " + ($0.hasSuffix(".") ? $0.dropLast() : $0[...]) } ?? "" }
  }

  private let keys = Locked<[Key]>([])

  /// The keys in the order: active, next, retired.
  var all: [Key] {
    get { keys.withLock { $0 } }
    set { keys.withLock { $0 = newValue } }
  }

  /// The keys at a time in seconds since 1970.
  func all(at now: Int) -> [Key] { all.filter { $0.isConfigured || $0.tokensExpireAt ?? 0 > now } }

  /// The result of the readiness check of a rotation: a sentence, and whether the rotation needs the operator.
  var rotation: (detail: String, needsOperator: Bool)? {
    let all = all
    guard let next = all.dropFirst().first(where: { $0.state != .retired }) else { return nil }
    switch next.state {
    case .signing: return ("key \(next.id) signs", false)
    case .proved: return ("key \(next.id) is proved, and signs from its notBefore on", false)
    case .refused:
      return ("Apple Music refuses tokens of the next key \(next.id), so key \(all[0].id) signs\(next.reason)", true)
    case .unproved, .replaced, .retired:
      return ("key \(next.id) is not proved yet, so key \(all[0].id) signs\(next.reason)", false)
    }
  }

  /// The keys, and the time at which Apple Music last accepted a token of the key that signs.
  typealias Reading = (keys: [Key], accepted: Int?)

  static let metrics = MetricReading<Reading>.group([
    .init(
      "musickit_signing_key_state",
      "1 for the present state of each key, 0 for all others. Exactly one key is `signing`. A key that a reload has "
        + "replaced is `retired` while its tokens may live.",
      labels: ["key", "state"]
    ) { reading in
      reading.keys.flatMap { key in
        SigningKeyState.allCases.map { ([.configured("\(key.id)"), .configured($0.rawValue)], key.state == $0) }
      }
    },
    .init(
      "musickit_signing_key_last_proof_timestamp_seconds",
      "Unix time at which Apple Music last accepted a token of the key, or the key signed its probe at a load. 0 before.",
      labels: ["key"]
    ) { reading in
      reading.keys.filter { $0.state != .retired }.map { key in
        let proof = max(key.lastProof ?? 0, key.state == .signing ? reading.accepted ?? 0 : 0)
        return ([.configured("\(key.id)")], proof)
      }
    },
    .init(
      "musickit_signing_key_tokens_expire_timestamp_seconds",
      "Unix time until which callers may hold tokens of a key that does not sign any more: do not revoke it before.",
      labels: ["key"]
    ) { reading in
      reading.keys.compactMap { key in key.tokensExpireAt.map { ([.configured("\(key.id)")], $0) } }
    },
  ]) { ($0.services.metrics.signingKeys.all(at: Glibc.time(nil)), $0.services.catalog?.proxy.status.tokenAcceptedAt) }
}
