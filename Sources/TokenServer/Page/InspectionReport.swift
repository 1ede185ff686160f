package import DeveloperToken
import JSON

/// The output of `inspect` for an inspection, and of `POST /page/inspect`.
package struct InspectionReport {
  private let inspection: Inspection
  private let now: Int

  package init(_ inspection: Inspection, now: Int) { (self.inspection, self.now) = (inspection, now) }

  /// The report for people: the content of the token, then each check, then the verdict.
  package var lines: [String] {
    var lines: [String] = []
    for (name, value) in members {
      guard let value else { continue }
      let time = value.integer.map { "  (\(distance(to: $0)))" }
      lines.append("\(padded(name, 7))\(value.ascii)\(time ?? "")")
    }
    if !lines.isEmpty { lines.append("") }
    lines += inspection.checks.map { "\(padded(word($0.verdict), 9))\(padded($0.rule, 20))\($0.explanation)" }
    return lines + ["", verdict]
  }

  /// The verdict. Only Apple knows which keys of which teams it accepts.
  private var verdict: String {
    guard inspection.isAcceptable else { return "Apple would refuse it." }
    let isSigned = inspection.checks.contains { $0.rule == "signature" && $0.verdict == .pass }
    return isSigned
      ? "The token is well-formed, and the given key signed it. Only Apple knows whether it accepts this key and team."
      : "The token is well-formed. The signature is not verified, because --key-file names no key."
  }

  /// The report for programs.
  package var json: String {
    let checks = inspection.checks.map { check -> JSONValue in
      ["rule": .text(check.rule), "verdict": .text(check.verdict.rawValue), "explanation": .text(check.explanation)]
    }
    return JSONValue.object(
      of: [("acceptable", JSONValue.bool(inspection.isAcceptable))] + members + [("checks", JSONValue.array(checks))]
    ).ascii
  }

  /// The content of the token in JSON, under the names in the token. Only times are numbers.
  private var members: [(String, JSONValue?)] {
    [
      ("alg", inspection.algorithm.map { .string($0) }), ("kid", inspection.keyID.map { .string($0) }),
      ("iss", inspection.issuer.map { .string($0) }), ("iat", inspection.issuedAt.map { .whole($0) }),
      ("exp", inspection.expiresAt.map { .whole($0) }),
      ("origin", inspection.origins.isEmpty ? nil : .array(inspection.origins.map { .string($0) })),
    ]
  }

  /// Returns the distance of `time` from now: `in 12 h`, `3 d ago`. A token may contain any number.
  private func distance(to time: Int) -> String {
    let (difference, overflow) = time.subtractingReportingOverflow(now)
    guard !overflow else { return "out of range" }
    let magnitude = difference.magnitude
    let text =
      switch magnitude {
      case ..<120: "\(magnitude) s"
      case ..<7200: "\(magnitude / 60) min"
      case ..<172_800: "\(magnitude / 3600) h"
      default: "\(magnitude / 86_400) d"
      }
    return difference < 0 ? "\(text) ago" : "in \(text)"
  }

  private func word(_ verdict: Check.Verdict) -> String {
    switch verdict {
    case .pass: "ok"
    case .fail: "FAIL"
    case .warning: "warning"
    case .unknown: "?"
    }
  }

  private func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(1, width - text.count))
  }
}
