import Bytes
import DeveloperToken

/// Holds a developer token against Apple's rules.
public struct InspectCommand: Sendable {
  /// What is read of a token at most, in bytes: more than any has, so that the inspector itself can say it is too long.
  static let inputLimit = 65_536

  private let token: String?
  private let keyFile: String?
  private let origin: String?
  private let isJSON: Bool

  /// The command with what its flags say; without a token it reads one from standard input.
  public init(token: String?, keyFile: String?, origin: String?, isJSON: Bool) {
    self.token = token
    self.keyFile = keyFile
    self.origin = origin
    self.isJSON = isJSON
  }

  /// What there is to say about the token.
  ///
  /// - Parameters:
  ///   - input: The descriptor to read the token from if there was none.
  ///   - now: The time in seconds since 1970.
  public func run(input: Int32, now: Int) -> CommandResult {
    do {
      let token = try token.map { Array($0.utf8) } ?? SmallFile.read(input, atMost: Self.inputLimit, within: nil)
      let origin = try origin.map { (text) throws(OriginError) in try Origin(text) }
      let plain = Inspector(origin: origin, now: now).inspect(token.span)
      let key = try keyFile.map { (file) throws(SigningKeyError) in try Self.key(file, for: plain) }
      let inspection = Inspector(key: key?.verificationKey, origin: origin, now: now).inspect(token.span)
      let report = InspectionReport(inspection, now: now)
      return CommandResult(
        inspection.isAcceptable ? .good : .failed, output: isJSON ? [report.json] : report.lines,
        diagnostics: key?.findings.map(\.description) ?? [])
    } catch let error as SigningKeyError {
      return CommandResult(.configuration, diagnostics: ["\(error)"])
    } catch let error as SmallFile.Failure {
      return CommandResult(.usage, diagnostics: ["The token on standard input \(error)."])
    } catch {
      return CommandResult(.usage, diagnostics: ["\(error)"])
    }
  }

  /// The key of `file`. If the file's name does not tell the key ID, the one in the token is believed.
  private static func key(_ file: String, for inspection: Inspection) throws(SigningKeyError) -> SigningKey {
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
