import Bytes
import Cryptography
import DeveloperToken
import HTTPMessages
import ServerSettings
import TokenServer

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
