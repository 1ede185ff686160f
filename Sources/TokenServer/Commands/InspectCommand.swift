import Bytes
import Cryptography
import DeveloperToken
import HTTPMessages
import ServerSettings

/// Checks a developer token against Apple's rules.
public struct InspectCommand: Sendable {
  /// The maximum input in bytes. It exceeds every token, so that the inspector itself can report an overlong one.
  static let inputLimit = 65_536

  private let token: String?
  private let keyFile: String?
  private let origin: String?
  private let isJSON: Bool

  /// Creates the command with the values of its flags. Without a token, it reads one from standard input.
  public init(token: String?, keyFile: String?, origin: String?, isJSON: Bool) {
    self.token = token
    self.keyFile = keyFile
    self.origin = origin
    self.isJSON = isJSON
  }

  /// Inspects the token and returns the report.
  ///
  /// - Parameters:
  ///   - input: The descriptor to read the token from if no flag supplies one.
  ///   - now: The time in seconds since 1970.
  public func run(input: Int32, now: Int) -> CommandResult {
    do {
      let token = try token.map { Array($0.utf8) } ?? SmallFile.read(input, atMost: Self.inputLimit, within: nil)
      let origin = try origin.map { (text) throws(OriginError) in try Origin(text) }
      let plain = Inspector(origin: origin, now: now).inspect(token.span)
      let key = try keyFile.map { (file) throws(SigningKeyError) in try Self.key(file, for: plain) }
      let inspection = Inspector(key: key?.key, origin: origin, now: now).inspect(token.span)
      let report = InspectionReport(inspection, now: now)
      return CommandResult(
        inspection.isAcceptable ? .good : .failed, output: isJSON ? [report.json] : report.lines,
        diagnostics: key?.findings ?? [])
    } catch let error as SigningKeyError {
      return CommandResult(.configuration, diagnostics: ["\(error)"])
    } catch let error as SmallFile.Failure {
      return CommandResult(.usage, diagnostics: ["The token on standard input \(error)."])
    } catch {
      return CommandResult(.usage, diagnostics: ["\(error)"])
    }
  }

  /// Returns the key of `file`, public or private, and the findings about the file.
  private static func key(
    _ file: String, for inspection: Inspection
  ) throws(SigningKeyError) -> (key: VerificationKey, findings: [String]) {
    if let key = try VerificationKey.load(publicKeyFile: file) { return (key, []) }
    let key = try signingKey(file, for: inspection)
    return (key.verificationKey, key.findings.map(\.description))
  }

  /// Reads a private key. If the file's name has no key ID, the function uses that of the token.
  private static func signingKey(_ file: String, for inspection: Inspection) throws(SigningKeyError) -> SigningKey {
    do {
      return try SigningKey.load(file: file, keyID: nil)
    } catch {
      switch error.reason {
      case .noKeyID, .badKeyIDInFileName:
        guard let keyID = inspection.keyID.flatMap({ try? KeyID($0.text) }) else { throw error }
        return try SigningKey.load(file: file, keyID: keyID)
      default: throw error
      }
    }
  }
}

/// The output of `inspect` for an inspection.
struct InspectionReport {
  private let inspection: Inspection
  private let now: Int

  init(_ inspection: Inspection, now: Int) {
    self.inspection = inspection
    self.now = now
  }

  /// The report for people: the content of the token, then each check, then the verdict.
  var lines: [String] {
    var lines: [String] = []
    for (name, value) in members {
      guard let value else { continue }
      let time = name == "iat" || name == "exp" ? Int(value).map { "  (\(distance(to: $0)))" } : nil
      lines.append("\(padded(name, 7))\(value)\(time ?? "")")
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
  var json: String {
    let checks = inspection.checks.map { check in
      JSONText.object([
        ("rule", JSONText.string(check.rule)), ("verdict", JSONText.string(check.verdict.rawValue)),
        ("explanation", JSONText.string(check.explanation)),
      ])
    }
    return JSONText.object(
      [("acceptable", "\(inspection.isAcceptable)")] + members + [("checks", JSONText.array(checks))])
  }

  /// The content of the token in JSON, under the names in the token.
  private var members: [(name: String, value: String?)] {
    [
      ("alg", inspection.algorithm.map(Self.text)), ("kid", inspection.keyID.map(Self.text)),
      ("iss", inspection.issuer.map(Self.text)), ("iat", inspection.issuedAt.map(String.init)),
      ("exp", inspection.expiresAt.map(String.init)),
      ("origin", inspection.origins.isEmpty ? nil : JSONText.array(inspection.origins.map(Self.text))),
    ]
  }

  private static func text(_ bytes: ByteString) -> String { JSONText.string(bytes.text) }

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
