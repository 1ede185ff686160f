import Glibc
import JSON
import TokenServer

/// The report of `doctor`: one check for each subject, in the order in which they depend on each other.
final class Diagnosis {
  /// The subject of a check. The raw value is its name in the output, and never changes.
  enum Subject: String, CaseIterable {
    // Of a machine that has the settings of a server.
    case settings
    /// Which callers have access; of a running server, whether this one has.
    case access
    case key
    case keyFiles = "key-files"
    case certificates
    case token
    case origin
    case identityProviders = "identity-providers"
    case listeners
    case spanCollector = "span-collector"
    case sharedStore = "shared-store"
    case dns
    case tcp
    case proxy
    case tls
    case clock
    case appleMusic = "apple-music"
    case nextKey = "next-key"
    case userToken = "user-token"

    // Of a running server.
    case server
    case readiness
    case credential
    case cors

    static let ofMachine = Array(allCases.prefix { $0 != .server })
    static let ofServer: [Subject] = [.server, .readiness, .credential, .access, .cors]
    /// Those that the report leaves out unless they have a result.
    fileprivate static let ofSomeSettings: [Subject] = [
      .certificates, .identityProviders, .spanCollector, .sharedStore,
    ]
    /// Those whose failure ends the checks behind them, which then have no result of their own.
    fileprivate static let blocking: [Subject] = [
      .settings, .token, .dns, .tcp, .proxy, .tls, .clock, .appleMusic, .server, .credential, .access,
    ]
  }

  private enum Verdict: String {
    case pass
    case fail
    /// The check does not apply, or depends on one that failed.
    case skipped

    /// The sign in front of a line, in colour by the escape sequences of ECMA-48 §8.3.117.
    func sign(isColoured: Bool) -> String {
      let (sign, colour) =
        switch self {
        case .pass: ("✓", 32)
        case .fail: ("✗", 31)
        case .skipped: ("–", 2)
        }
      return isColoured ? "\u{1B}[\(colour)m\(sign)\u{1B}[0m" : sign
    }
  }

  private struct Check {
    let verdict: Verdict
    /// What was found, a sentence each. There is at least one.
    let evidence: [String]
    /// What to do about a failure. Nil if the evidence says it.
    var fix: String?
  }

  private let all: [Subject]
  private var checks: [Subject: Check] = [:]

  init(of subjects: [Subject]) { all = subjects }

  private var subjects: [Subject] { all.filter { checks[$0] != nil || !Subject.ofSomeSettings.contains($0) } }
  func pass(_ subject: Subject, _ evidence: [String]) { checks[subject] = Check(verdict: .pass, evidence: evidence) }
  func pass(_ subject: Subject, _ evidence: String) { pass(subject, [evidence]) }

  func skip(_ subject: Subject, because reason: String) {
    checks[subject] = Check(verdict: .skipped, evidence: [reason])
  }

  func skip(_ subjects: Subject..., dependsOn other: Subject) {
    for subject in subjects { skip(subject, because: Self.dependence(on: other)) }
  }

  static func dependence(on other: Subject) -> String { "It depends on \(other.rawValue)." }

  func fail(_ subject: Subject, _ evidence: [String], fix: String? = nil) {
    checks[subject] = Check(verdict: .fail, evidence: evidence, fix: fix)
  }

  func fail(_ subject: Subject, _ evidence: String, fix: String? = nil) { fail(subject, [evidence], fix: fix) }
  func hasFailed(_ subject: Subject) -> Bool { checks[subject]?.verdict == .fail }
  var isHealthy: Bool { !all.contains(where: hasFailed) }

  private subscript(subject: Subject) -> Check {
    let blocker = all.last { Subject.blocking.contains($0) && hasFailed($0) }
    let reason = blocker.map(Self.dependence) ?? "It depends on a check without a result."
    return checks[subject] ?? Check(verdict: .skipped, evidence: [reason])
  }

  func output(isJSON: Bool) -> [String] {
    isJSON ? [json] : lines(isColoured: Application.usesColour(on: STDOUT_FILENO))
  }

  private func lines(isColoured: Bool) -> [String] {
    let width = subjects.map(\.rawValue.count).max() ?? 0
    return subjects.flatMap { subject -> [String] in
      let check = self[subject]
      let name = subject.rawValue + String(repeating: " ", count: width - subject.rawValue.count)
      let indent = String(repeating: " ", count: width + 4)
      var lines = ["\(check.verdict.sign(isColoured: isColoured)) \(name)  \(check.evidence.first ?? "")"]
      lines += check.evidence.dropFirst().map { indent + $0 }
      if let fix = check.fix { lines[lines.count - 1] += " \(fix)" }
      return lines
    }
  }

  private var json: String {
    let checks = subjects.map { subject in
      let check = self[subject]
      return JSONValue.object(of: [
        ("check", .text(subject.rawValue)), ("verdict", .text(check.verdict.rawValue)),
        ("evidence", .strings(check.evidence)), ("fix", check.fix.map { .text($0) }),
      ])
    }
    return JSONValue.object(of: [("healthy", .bool(isHealthy)), ("checks", .array(checks))]).ascii
  }
}
