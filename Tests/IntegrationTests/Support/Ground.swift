import TestSupport

/// The prerequisites of a server: a fresh key in a file with a name of Apple's form, and the settings for this file.
struct Ground {
  static let teamID = "TEAM123456"
  static let keyID = "ABC1234567"

  let directory: TemporaryDirectory
  let key: KeyPair
  let keyFile: String

  init() throws {
    directory = try TemporaryDirectory()
    key = try KeyPair()
    keyFile = try directory.write(key.pem, to: "AuthKey_\(Self.keyID).p8")
  }

  /// The three required settings, and the host names in the requests of these tests.
  var required: [String: String] {
    [
      "MUSICKIT_TEAM_ID": Self.teamID, "MUSICKIT_KEY_FILE": keyFile, "ACCESS_ANONYMOUS": "{ token: true }",
      "SERVER_HOSTS": "['a', 'x', 'evil', 'evil.example', 'api.music.apple.com']",
    ]
  }

  /// The required settings with free ports.
  var settings: [String: String] { required.merging(["SERVER_PORT": "0", "ADMIN_PORT": "0"]) { $1 } }

  /// Time limits that no client, no upstream and no debug build of a server reaches because the machine is busy. A test of
  /// a time limit sets its own.
  private static let patience = [
    "SERVER_LIMITS_TLS_HANDSHAKE": "5m", "SERVER_LIMITS_HEADER_SECTION": "5m", "SERVER_LIMITS_BODY_PROGRESS": "1h",
    "SERVER_LIMITS_BODY": "1h", "SERVER_LIMITS_WRITE_PROGRESS": "1h", "SERVER_LIMITS_IDLE": "1d",
    "SERVER_LIMITS_BURST": "1h", "CATALOG_TIMEOUTS_CONNECT": "1m", "CATALOG_TIMEOUTS_FIRST_BYTE": "5m",
    "CATALOG_TIMEOUTS_WHOLE": "10m",
  ]

  /// The required settings with free ports, and those time limits.
  var patientSettings: [String: String] { settings.merging(Self.patience) { $1 } }

  /// Starts a server with these settings and more.
  func serve(_ more: [String: String] = [:], _ arguments: [String] = []) throws -> RunningServer {
    try withExtendedLifetime(directory) {
      try RunningServer(arguments, environment: patientSettings.merging(more) { $1 })
    }
  }

  /// Runs a command that must not start a server, with these settings and more.
  func run(_ arguments: [String] = [], _ more: [String: String] = [:]) throws -> ProcessResult {
    try withExtendedLifetime(directory) {
      try Program.run(arguments, environment: settings.merging(more) { $1 })
    }
  }

  /// Writes the public half of the key and returns its path.
  func publicKeyFile() throws -> String { try directory.write(key.publicPEM, to: "public.pem") }

  /// A self-signed certificate for the loopback addresses, in files.
  func certificate(_ key: KeyPair? = nil) throws -> (file: String, keyFile: String) {
    let certificate = try Certificate(key: try key ?? KeyPair())
    return (
      try directory.write(certificate.pem, to: "tls.crt"), try directory.write(certificate.key.pem, to: "tls.key")
    )
  }

  /// The settings of a server with TLS and this certificate.
  func tlsSettings() throws -> [String: String] {
    let (file, keyFile) = try certificate()
    return ["SERVER_TLS_CERTIFICATE_FILE": file, "SERVER_TLS_KEY_FILE": keyFile]
  }

  /// The path of the certificate file.
  var certificateFile: String { directory.path(of: "tls.crt") }
}
