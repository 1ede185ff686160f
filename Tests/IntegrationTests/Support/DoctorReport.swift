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

  static let all =
    [
      "settings", "access", "key", "key-files", "token", "origin", "listeners",
    ] + way
  /// The checks of the way to Apple Music, each of which depends on those before it.
  static let way = ["dns", "tcp", "proxy", "tls", "clock", "apple-music", "next-key", "user-token"]

  /// Expects that only this check fails, that all others have a result, and that those of the way to Apple Music after it are
  /// skipped.
  func expectFailure(_ name: String, _ words: String..., sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(status == (name == "key" ? 78 : 1), "\(text)", sourceLocation: sourceLocation)
    #expect(failed == [name], "\(text)", sourceLocation: sourceLocation)
    #expect(Set(passed + failed + skipped).isSuperset(of: DoctorReport.all), sourceLocation: sourceLocation)
    let line = lines(of: name)
    for word in words { #expect(line.contains(word), "\(text)", sourceLocation: sourceLocation) }
    guard let index = DoctorReport.way.firstIndex(of: name) else { return }
    let later = Set(DoctorReport.way[index...])
    #expect(passed.allSatisfy { !later.contains($0) }, "\(text)", sourceLocation: sourceLocation)
  }

  /// The lines of a check.
  func lines(of name: String) -> String {
    let lines = text.split(separator: "\n")
    guard let first = lines.firstIndex(where: { $0.split(separator: " ").dropFirst().first == Substring(name) }) else {
      return ""
    }
    let rest = lines[(first + 1)...].prefix { $0.hasPrefix(" ") }
    return ([lines[first]] + rest).joined(separator: "\n")
  }
}
