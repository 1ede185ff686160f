import ArgumentParser
import Bytes
import Cryptography
import DeveloperToken
import Glibc
import HTTPMessages
import ServerSettings
import TokenServer

struct InspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect",
    abstract: "Check a developer token against each of Apple's rules; exit 1 if Apple would refuse it.")

  @Argument(help: "The token. Default: standard input.")
  var token: String?
  @Option(
    help: ArgumentHelp("The key that signed the token: the .p8 file, or its public key in PEM.", valueName: "file"))
  var keyFile: String?
  @Option(help: ArgumentHelp("The web origin that uses the token.", valueName: "origin"))
  var origin: String?
  @Flag(help: "Print a JSON object.")
  var json = false

  /// The maximum input in bytes. It exceeds every token, so that the inspector itself can report an overlong one.
  private static let inputLimit = 65_536

  func run() throws { try result(input: STDIN_FILENO, now: Glibc.time(nil)).finish() }

  func result(input: Int32, now: Int) -> CommandResult {
    do {
      let token = try token.map { Array($0.utf8) } ?? SmallFile.read(input, atMost: Self.inputLimit, within: nil)
      let origin = try origin.map { (text) throws(OriginError) in try Origin(text) }
      let plain = Inspector(origin: origin, now: now).inspect(token.span)
      let key = try keyFile.map { (file) throws(SigningKeyError) in try Self.key(file, for: plain) }
      let inspection = Inspector(key: key?.key, origin: origin, now: now).inspect(token.span)
      let report = InspectionReport(inspection, now: now)
      return CommandResult(
        inspection.isAcceptable ? .good : .failed, output: json ? [report.json] : report.lines,
        diagnostics: key?.findings ?? [])
    } catch let error as SigningKeyError {
      return CommandResult(.configuration, diagnostics: ["\(error)"])
    } catch let error as SmallFile.Failure {
      return CommandResult(.usage, diagnostics: ["The token on standard input \(error)."])
    } catch {
      return CommandResult(.usage, diagnostics: ["\(error)"])
    }
  }

  private static func key(
    _ file: String, for inspection: Inspection
  ) throws(SigningKeyError) -> (key: VerificationKey, findings: [String]) {
    if let key = try VerificationKey.load(publicKeyFile: file) { return (key, []) }
    let key: SigningKey
    do { key = try SigningKey.load(file: file, keyID: nil) } catch {
      switch error.reason {
      case .noKeyID, .badKeyIDInFileName:
        // Without an ID in the file's name, that of the token counts.
        guard let keyID = inspection.keyID.flatMap({ try? KeyID($0.text) }) else { throw error }
        key = try SigningKey.load(file: file, keyID: keyID)
      default: throw error
      }
    }
    return (key.verificationKey, key.findings.map(\.description))
  }
}
