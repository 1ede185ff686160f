import CatalogProxy
import DeveloperToken
import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON
import Locks
import Telemetry

final class Health: Sendable {
  private let draining = Locked(false)
  private let loops: [IOLoop]

  /// - Parameter loops: The loops on whose progress the admin listener's `/healthz` depends.
  init(_ loops: [IOLoop] = []) { self.loops = loops }

  /// Makes `/readyz` report that the server is not ready, so that load balancers send no new requests.
  func beginDrain() { draining.withLock { $0 = true } }

  /// Returns whether no loop has been in the same turn for `longest`. A turn under full load takes a tenth of a second.
  func loopsMakeProgress(within longest: Duration = .seconds(10)) -> Bool {
    loops.allSatisfy { $0.presentTurn < longest }
  }

  /// The public route `/healthz`.
  var liveness: Route { Route(get: "/healthz") { _ in Self.alive } }

  /// The admin route `/healthz`, whose own loop checks that the loops of the public listener make progress.
  var livenessOfLoops: Route {
    Route(get: "/healthz") { _ in
      self.loopsMakeProgress() ? Self.alive : Self.response(.serviceUnavailable, ["status": "stuck"])
    }
  }

  /// Returns the route `/readyz`. The public one has only the verdict, the admin's an entry for each check.
  func readiness(_ generation: RuntimeSnapshot, isDetailed: Bool) -> Route {
    Route(get: "/readyz") { _ in
      let report = self.report(generation)
      let json = isDetailed ? report.json : ["status": .text(report.verdict)]
      return Self.response(report.isReady ? .ok : .serviceUnavailable, json)
    }
  }

  func report(_ generation: RuntimeSnapshot) -> ReadinessReport {
    let (minter, services) = (generation.minter, generation.services)
    let audit = services.access.audit
    var checks: [ReadinessReport.Check] = [
      .init("signingKey", otherwise: "key \(minter.key.keyID)"), .init(minter),
      .init(services.metrics.reloads.withLock { $0 }),
    ]
    if let (detail, needsOperator) = services.metrics.signingKeys.rotation {
      checks.append(.init(name: "keyRotation", detail: detail, result: needsOperator ? .degraded : .good))
    }
    if let catalog = services.catalog {
      let status = catalog.proxy.status
      checks += [.init(status), .init(quotaOf: status)]
    }
    if !generation.gate.keys.remotes.isEmpty { checks.append(.init(services.access.keySets.counts)) }
    let noRecord = ReadinessReport.Check("auditLog", otherwise: "grants have no record; see audit.file")
    checks.append(audit.keepsGrants ? .init(audit.state, isRequired: audit.isRequired) : noRecord)
    if let group = services.group?.status { checks.append(.init(group)) }
    let isDraining = draining.withLock { $0 }
    if isDraining { checks.append(.init(name: "draining", detail: "the server is shutting down", result: .failed)) }
    return ReadinessReport(checks: checks, isDraining: isDraining)
  }

  private static func response(_ status: HTTPResponse.Status, _ json: JSONValue) -> Response {
    Response(status, prepared: fields, body: json.bytes + "\n".utf8)
  }

  private static let alive = response(.ok, ["status": "ok"])
  private static let fields = FieldSection([
    .contentType: "application/json", .cacheControl: "no-store", .vary: "Origin", .xContentTypeOptions: "nosniff",
  ])
}

package struct ReadinessReport {
  struct Check {
    let name: StaticString
    let detail: String
    let result: Result
  }

  enum Result: String, CaseIterable {
    case good = "ok"
    /// Something is wrong, but another replica would have the same problem, so requests should not go elsewhere.
    case degraded
    case failed
  }

  let checks: [Check]
  let isDraining: Bool

  var isReady: Bool { checks.allSatisfy { $0.result != .failed } }

  package static let verdicts = ["ready", "degraded", "draining", "unavailable"]

  var verdict: String {
    isReady
      ? (checks.contains { $0.result == .degraded } ? "degraded" : "ready") : isDraining ? "draining" : "unavailable"
  }

  var json: JSONValue {
    let members = checks.map { check -> (String, JSONValue?) in
      ("\(check.name)", ["status": .text(check.result.rawValue), "detail": .text(check.detail)])
    }
    return ["status": .text(verdict), "checks": .object(of: members)]
  }
}

extension ReadinessReport.Check {
  /// Creates a check that has found a problem which another replica would have too, or has not.
  fileprivate init(_ name: StaticString, problem: String? = nil, otherwise detail: String) {
    self.init(name: name, detail: problem ?? detail, result: problem == nil ? .good : .degraded)
  }

  /// Checks whether there is a token, or can be one. A remote signer that is down is so for all replicas, and leaves
  /// callers the tokens that they share, and the catalog its own.
  fileprivate init(_ minter: TokenMinter) {
    name = "token"
    do throws(TokenError) {
      let hasToken = try minter.hasToken { Glibc.time(nil) }
      if let failure = minter.key.remote?.failure {
        (detail, result) = ("\(failure)", .degraded)
      } else {
        (detail, result) = (hasToken ? "the server can mint a token" : "the signer is asked for a token", .good)
      }
    } catch { (detail, result) = ("\(error)", .failed) }
  }

  /// Checks whether the settings in use are those in the files.
  fileprivate init(_ reloads: ReloadTally) {
    let pending = reloads.needingRestart.joined(separator: ", ")
    let refusal = reloads.refusal.map { "the last reload was refused, so older ones are in use: \($0)" }
    self.init(
      "settings", problem: refusal ?? (pending.isEmpty ? nil : "these have changed, and need a restart: \(pending)"),
      otherwise: "those in the files are in use")
  }

  /// Checks the identity providers whose keys the server fetches. Only requests with JWTs depend on them.
  fileprivate init(_ counts: KeySetCounts) {
    let missing = "the keys of \(counts.missing) have not arrived yet; the log has the reason"
    self.init(
      "identityProviders", problem: counts.missing > 0 ? missing : nil, otherwise: "all keys have arrived")
  }

  /// Checks the audit log, by its last writes and by the grants of the last minute. If it is required, this server gives
  /// nothing meanwhile, and another replica may have a better disk.
  init(_ audit: AuditLog.RecordingState, isRequired: Bool) {
    name = "auditLog"
    let lost = audit.unrecorded == 1 ? "1 grant or key event has" : "\(audit.unrecorded) grants and key events have"
    let isLosing = audit.sinceUnrecorded.map { $0 < .seconds(60) } ?? false
    switch (audit.isFailing, audit.isFull || isLosing) {
    case (false, false) where audit.sinceLost.map { $0 < .seconds(60) } ?? false:
      (detail, result) = ("records of refusals are lost; the log has the reason", .degraded)
    case (false, false):
      (detail, result) = (audit.unrecorded == 0 ? "every grant has a record" : "grants have records again", .good)
    case (true, _) where isRequired:
      (detail, result) = ("it cannot be written, so the server grants nothing; see audit.required", .failed)
    case (false, true) where isRequired:
      (detail, result) = ("too many records wait to be written, so the server grants nothing", .failed)
    case (true, false):
      let detail = "it cannot be written, so records of grants wait in memory; the log has the reason"
      (self.detail, result) = (detail, .degraded)
    case (_, true): (detail, result) = ("the server grants without a record: \(lost) none", .degraded)
    }
  }

  /// Checks the store that the replicas share. Without it the server still responds to every request.
  fileprivate init(_ group: ReplicaGroup.Status) {
    let count = group.state.count
    let problem: String? =
      if let reason = group.problem {
        "the store is of no use: \(reason) This replica keeps limits of its own, a part of \(count)"
      } else if !group.differences.isEmpty {
        "\(count) replicas share it, and some have \(group.differences.text): they do not share with this one what "
          + "depends on it, so limits and requests to Apple Music may double"
      } else { nil }
    let share = count == 1 ? "this is the only replica" : "\(count) replicas share it"
    self.init("sharedStore", problem: problem, otherwise: share)
  }

  /// Checks Apple Music, by the results of the last requests.
  fileprivate init(_ status: CatalogStatus) {
    let problem: String? =
      if status.isTokenRejected {
        "it refuses this server's developer tokens; the log has the reason"
      } else if status.isCircuitOpen {
        "it has failed repeatedly, so the server sends it only a few requests"
      } else { nil }
    self.init("appleMusic", problem: problem, otherwise: "no failure is known")
  }

  /// Checks the team's quota at Apple Music, which all replicas share.
  fileprivate init(quotaOf status: CatalogStatus) {
    let pace = status.rate.map { "about \($0.paceText) requests a second" }
    let refusals = status.recentRefusals
    let sent = pace.map { "; the server sends \($0)" } ?? ""
    let problem = "Apple Music limits the team: \(refusals) responses with 429 in the last minute\(sent)"
    self.init(
      "appleMusicQuota", problem: refusals > 0 ? problem : nil,
      otherwise: pace.map { "Apple Music allows \($0), according to its 429s" } ?? "no limit is known")
  }
}
