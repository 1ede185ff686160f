import ServerSettings

/// Finds out why a running server refuses a caller: reads the credential, asks the admin listener, and reports.
public struct ServerDoctorCommand: Sendable {
  /// A request of a caller, as the operator describes it.
  public struct Caller: Sendable {
    /// The file with the API key or the JWT; `-` is standard input. Nil for a caller without one.
    public var credentialFile: String?
    /// The origin of the caller's page; nil for a program.
    public var origin: String?
    /// The path that the caller requests; nil for `/token`.
    public var path: String?

    /// Creates a description.
    public init(credentialFile: String?, origin: String?, path: String?) {
      (self.credentialFile, self.origin, self.path) = (credentialFile, origin, path)
    }
  }

  /// The limit is that of a field line on the public listener, and more than any JWT has.
  private static let secret = CommandSecret(
    name: "credential", limit: 16_384, content: "the API key or the JWT, without Authorization or Bearer")

  private let url: String
  private let caller: Caller
  private let isJSON: Bool

  /// Creates the command with the URL of the admin listener.
  public init(url: String, caller: Caller, isJSON: Bool) {
    (self.url, self.caller, self.isJSON) = (url, caller, isJSON)
  }

  /// Makes all checks and returns the report.
  ///
  /// - Parameter input: The descriptor of standard input.
  public func run(input descriptor: Int32) -> CommandResult {
    do {
      let url = try HealthCheckURL(url)
      guard url.target == "/" else {
        throw CommandError(.usage, "--url takes the address of the admin listener, without a path.")
      }
      let credential = try caller.credentialFile.map { try Self.secret.read(file: $0, input: descriptor) }
      var diagnosis = Diagnosis(of: Diagnosis.Subject.ofServer)
      try ServerDiagnosis(url: url, credential: credential, origin: caller.origin, path: caller.path).run(&diagnosis)
      return CommandResult(diagnosis.isHealthy ? .good : .failed, output: diagnosis.output(isJSON: isJSON))
    } catch {
      return CommandResult(error, otherwise: .failed)
    }
  }
}
