import TestSupport
import Testing

/// A report with a line for each check, which begins with the sign of its verdict.
protocol CheckReport {
  var text: String { get }
}

extension CheckReport {
  var passed: [String] { names("✓") }
  var failed: [String] { names("✗") }
  var skipped: [String] { names("–") }

  private func names(_ sign: String) -> [String] {
    text.split(separator: "\n").filter { $0.hasPrefix(sign) }.compactMap { $0.split(separator: " ").dropFirst().first }
      .map(String.init)
  }
}

/// The report of `doctor`.
struct DoctorReport: CheckReport {
  let status: Int32
  let text: String
  let warnings: String

  init(_ ground: Ground, _ settings: [String: String] = [:], _ arguments: [String] = [], input: String = "") throws {
    let result = try withExtendedLifetime(ground) {
      try Program.run(["doctor"] + arguments, environment: ground.settings.merging(settings) { $1 }, input: input)
    }
    (status, text, warnings) = (result.status, result.stdout, result.stderr)
    #expect(!text.contains("eyJ") && !text.contains("PRIVATE KEY"))
  }

  static let all = [
    "settings", "key", "token", "origin", "dns", "tcp", "proxy", "tls", "clock", "apple-music", "next-key",
    "user-token",
  ]

  /// Expects that only this check fails, that those before it which apply pass, and that those after it are skipped.
  func expectFailure(_ name: String, _ words: String..., sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(status == (name == "key" ? 78 : 1), "\(text)", sourceLocation: sourceLocation)
    #expect(failed == [name], "\(text)", sourceLocation: sourceLocation)
    #expect(passed + failed + skipped == (passed + failed + skipped).filter(DoctorReport.all.contains))
    #expect(passed.count + failed.count + skipped.count == DoctorReport.all.count, sourceLocation: sourceLocation)
    let line = text.split(separator: "\n").first { $0.hasPrefix("✗ \(name) ") } ?? ""
    for word in words { #expect(line.contains(word), "\(text)", sourceLocation: sourceLocation) }
    let index = DoctorReport.all.firstIndex(of: name) ?? 0
    for passed in passed {
      #expect(DoctorReport.all.firstIndex(of: passed) ?? 99 < index, sourceLocation: sourceLocation)
    }
  }
}
