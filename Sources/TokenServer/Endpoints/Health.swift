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

/// The endpoints for liveness and readiness.
final class Health: Sendable {
  private let draining = Locked(false)
  private let loops = Locked<[IOLoop]>([])
  private let group = Locked<ReplicaGroup?>(nil)

  /// Makes `/readyz` report that the server is not ready, so that load balancers send no new requests.
  func beginDrain() {
    draining.withLock { $0 = true }
  }

  private var isDraining: Bool { draining.withLock { $0 } }

  /// Makes the admin listener's `/healthz` depend on the progress of these loops.
  func watch(_ loops: [IOLoop]) {
    self.loops.withLock { $0 = loops }
  }

  /// Makes `/readyz` report on the store that the replicas share.
  func watch(_ group: ReplicaGroup) {
    self.group.withLock { $0 = group }
  }

  /// Returns whether no loop has been in the same turn for `longest`. A turn under full load takes a tenth of a second.
  func loopsMakeProgress(within longest: Duration = .seconds(10)) -> Bool {
    loops.withLock { $0 }.allSatisfy { $0.presentTurn < longest }
  }

  /// The admin route `/healthz`. It has a loop of its own, so it checks that the loops of the public listener make
  /// progress.
  var livenessOfLoops: Route {
    Route(
      "/healthz",
      [
        .get { _ in
          self.loopsMakeProgress() ? Self.alive : Self.response(.serviceUnavailable, ["status": "stuck"])
        }
      ])
  }

  /// The public route `/healthz`, which responds without any check.
  var liveness: Route {
    Route("/healthz", [.get { _ in Self.alive }])
  }

  /// The parts of a generation of settings that readiness depends on.
  struct Job: Sendable {
    let minter: TokenMinter
    /// The states of the signing keys.
    let signingKeys: SigningKeys
    /// The results of reloads.
    let reloads: ReloadTally
    /// The catalog service; nil if it is turned off.
    let catalog: CatalogService?
    /// The key sets; nil if none of them are fetched.
    let keySets: KeySets?
    let audit: AuditLog
  }

  /// Returns the public route `/readyz`, which has only the verdict.
  func readiness(_ job: Job) -> Route {
    Route(
      "/readyz",
      [
        .get { _ in
          let report = self.report(job)
          return Self.response(report.isReady ? .ok : .serviceUnavailable, ["status": .text(report.verdict)])
        }
      ])
  }

  /// Returns the admin route `/readyz`, with an entry for each check.
  func detailedReadiness(_ job: Job) -> Route {
    Route(
      "/readyz",
      [
        .get { _ in
          let report = self.report(job)
          return Self.response(report.isReady ? .ok : .serviceUnavailable, report.json)
        }
      ])
  }

  /// Returns the results of all checks, for `/readyz` and for the metrics.
  func report(_ job: Job) -> ReadinessReport {
    var checks = [ReadinessReport.Check(name: "signingKey", detail: "key \(job.minter.key.keyID)", result: .good)]
    do {
      _ = try job.minter.token(now: Glibc.time(nil))
      checks.append(.init(name: "token", detail: "the server can mint a token", result: .good))
    } catch {
      checks.append(.init(name: "token", detail: "\(error)", result: .failed))
    }
    checks.append(.init(job.reloads.counts))
    if let (detail, needsOperator) = job.signingKeys.rotation {
      checks.append(.init(name: "keyRotation", detail: detail, result: needsOperator ? .degraded : .good))
    }
    if let catalog = job.catalog {
      let status = catalog.proxy.status
      checks += [.init(status), .init(quotaOf: status)]
    }
    if let keySets = job.keySets { checks.append(.init(keySets.counts)) }
    if job.audit.keepsGrants {
      checks.append(.init(job.audit.state, isRequired: job.audit.isRequired))
    } else {
      checks.append(.init(name: "auditLog", detail: "grants have no record; see audit.file", result: .good))
    }
    if let group = group.withLock({ $0 }) { checks.append(.init(group)) }
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

/// The results of all readiness checks.
package struct ReadinessReport {
  struct Check {
    let name: StaticString
    let detail: String
    let result: Result
  }

  enum Result: CaseIterable {
    case good
    /// Something is wrong, but another replica would have the same problem, so requests should not go elsewhere.
    case degraded
    case failed

    /// The word for JSON and metrics.
    var name: StaticString {
      switch self {
      case .good: "ok"
      case .degraded: "degraded"
      case .failed: "failed"
      }
    }
  }

  let checks: [Check]
  let isDraining: Bool

  var isReady: Bool { checks.allSatisfy { $0.result != .failed } }

  /// All verdicts.
  package static let verdicts = ["ready", "degraded", "draining", "unavailable"]

  var verdict: String {
    isReady
      ? (checks.contains { $0.result == .degraded } ? "degraded" : "ready") : isDraining ? "draining" : "unavailable"
  }

  var json: JSONValue {
    let members = checks.map { check -> (String, JSONValue?) in
      ("\(check.name)", ["status": .text("\(check.result.name)"), "detail": .text(check.detail)])
    }
    return ["status": .text(verdict), "checks": .object(of: members)]
  }
}

extension ReadinessReport.Check {
  /// Checks whether the settings in use are those in the files.
  fileprivate init(_ reloads: ReloadTally.Counts) {
    name = "settings"
    let pending = reloads.needingRestart.joined(separator: ", ")
    if let refusal = reloads.refusal {
      (detail, result) = ("the last reload was refused, so older ones are in use: \(refusal)", .degraded)
    } else if !pending.isEmpty {
      (detail, result) = ("these have changed, and need a restart: \(pending)", .degraded)
    } else {
      (detail, result) = ("those in the files are in use", .good)
    }
  }

  /// Checks the identity providers whose keys the server fetches. Only requests with JWTs depend on them, and another
  /// replica would have the same problem.
  fileprivate init(_ counts: KeySetCounts) {
    name = "identityProviders"
    if counts.missing > 0 {
      (detail, result) = ("the keys of \(counts.missing) have not arrived yet; the log has the reason", .degraded)
    } else {
      (detail, result) = ("all keys have arrived", .good)
    }
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
      (detail, result) = (
        "it cannot be written, so records of grants wait in memory; the log has the reason", .degraded
      )
    case (_, true):
      (detail, result) = ("the server grants without a record: \(lost) none", .degraded)
    }
  }

  /// Checks the store that the replicas share. Without it the server still responds to every request.
  fileprivate init(_ group: ReplicaGroup) {
    name = "sharedStore"
    let count = group.state.count
    if let problem = group.problem {
      detail = "the store is of no use: \(problem) This replica keeps limits of its own, a part of \(count)"
      result = .degraded
    } else if !group.differences.isEmpty {
      detail =
        "\(count) replicas share it, and some have \(group.differences.text): they do not share with this one what "
        + "depends on it, so limits and requests to Apple Music may double"
      result = .degraded
    } else {
      (detail, result) = (count == 1 ? "this is the only replica" : "\(count) replicas share it", .good)
    }
  }

  /// Checks Apple Music, by the results of the last requests.
  fileprivate init(_ status: CatalogStatus) {
    name = "appleMusic"
    if status.isTokenRejected {
      (detail, result) = ("it refuses this server's developer tokens; the log has the reason", .degraded)
    } else if status.isCircuitOpen {
      (detail, result) = ("it has failed repeatedly, so the server sends it only a few requests", .degraded)
    } else {
      (detail, result) = ("no failure is known", .good)
    }
  }

  /// Checks the team's quota at Apple Music, which all replicas share.
  fileprivate init(quotaOf status: CatalogStatus) {
    name = "appleMusicQuota"
    let pace = status.rate.map { "about \($0.paceText) requests a second" }
    if status.recentRefusals > 0 {
      detail =
        "Apple Music limits the team: \(status.recentRefusals) responses with 429 in the last minute"
        + (pace.map { "; the server sends \($0)" } ?? "")
      result = .degraded
    } else {
      (detail, result) = (pace.map { "Apple Music allows \($0), according to its 429s" } ?? "no limit is known", .good)
    }
  }
}
