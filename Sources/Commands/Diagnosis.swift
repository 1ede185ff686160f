import Glibc
import JSON
import TokenServer

/// The result of `doctor`: one check for each subject, in the order in which they depend on each other.
struct Diagnosis: Sendable {
  /// The subject of a check. The raw value is its name in the output, and never changes.
  enum Subject: String, Sendable, CaseIterable {
    // Of a machine that has the settings of a server.
    case settings
    /// Which callers have access; of a running server, whether this one has.
    case access
    case key
    case keyFiles = "key-files"
    /// Only with TLS.
    case certificates
    case token
    case origin
    /// Only if the server fetches keys of identity providers.
    case identityProviders = "identity-providers"
    case listeners
    /// Only with a collector.
    case spanCollector = "span-collector"
    /// Only with a store.
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
  }

  enum Verdict: String, Sendable {
    case pass
    case fail
    /// The check does not apply, or depends on one that failed.
    case skipped
  }

  struct Check: Sendable {
    let verdict: Verdict
    /// What was found, a sentence each. There is at least one.
    let evidence: [String]
    /// What to do about a failure. Nil if the evidence says it.
    let fix: String?
  }

  private let all: [Subject]
  private var checks: [Subject: Check] = [:]
  /// The last failed check on which the checks without a result depend.
  private var blocker: Subject?

  init(of subjects: [Subject]) {
    all = subjects
  }

  private var subjects: [Subject] { all.filter { checks[$0] != nil || !Subject.ofSomeSettings.contains($0) } }

  mutating func pass(_ subject: Subject, _ evidence: [String]) {
    checks[subject] = Check(verdict: .pass, evidence: evidence, fix: nil)
  }

  mutating func pass(_ subject: Subject, _ evidence: String) { pass(subject, [evidence]) }

  mutating func skip(_ subject: Subject, because reason: String) {
    checks[subject] = Check(verdict: .skipped, evidence: [reason], fix: nil)
  }

  /// Skips checks because another one has failed.
  mutating func skip(_ subjects: Subject..., dependsOn other: Subject) {
    for subject in subjects { skip(subject, because: Self.dependence(on: other)) }
  }

  static func dependence(on other: Subject) -> String { "It depends on \(other.rawValue)." }

  /// Records a failure, on which the checks that get no result depend if it `blocks`.
  mutating func fail(_ subject: Subject, _ evidence: [String], fix: String?, blocks: Bool = true) {
    checks[subject] = Check(verdict: .fail, evidence: evidence, fix: fix)
    if blocks { blocker = subject }
  }

  mutating func fail(_ subject: Subject, _ evidence: String, fix: String?, blocks: Bool = true) {
    fail(subject, [evidence], fix: fix, blocks: blocks)
  }

  func has(_ verdict: Verdict, _ subject: Subject) -> Bool { checks[subject]?.verdict == verdict }

  var isHealthy: Bool { checks.values.allSatisfy { $0.verdict != .fail } }

  private subscript(subject: Subject) -> Check {
    let reason = blocker.map { Self.dependence(on: $0) } ?? "It depends on a check without a result."
    return checks[subject] ?? Check(verdict: .skipped, evidence: [reason], fix: nil)
  }

  /// The report, in colour on a terminal.
  func output(isJSON: Bool) -> [String] {
    isJSON ? [json] : lines(isColoured: Application.usesColour(on: STDOUT_FILENO))
  }

  /// The report for people: a line for each check, and one for each further piece of evidence.
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

extension Diagnosis.Verdict {
  /// The sign in front of a line, in colour by the escape sequences of ECMA-48 §8.3.117.
  fileprivate func sign(isColoured: Bool) -> String {
    let (sign, colour) =
      switch self {
      case .pass: ("✓", 32)
      case .fail: ("✗", 31)
      case .skipped: ("–", 2)
      }
    return isColoured ? "\u{1B}[\(colour)m\(sign)\u{1B}[0m" : sign
  }
}
