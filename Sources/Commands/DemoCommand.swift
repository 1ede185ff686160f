import Access
public import Cryptography
import DeveloperToken
import EventLoop
import MusicSandbox
public import ServerSettings
import TokenServer

/// Runs a server without any configuration: a temporary key, an emulator instead of Apple Music, loopback only unless a
/// flag says otherwise, for every program that reaches it and for pages of this machine.
public struct DemoCommand: Sendable {
  private let port: UInt16
  private let address: String?
  private let dataFolder: String?
  private let host: HostFacts

  /// Creates the command.
  ///
  /// - Parameters:
  ///   - port: The port; 0 picks a free one.
  ///   - address: The address to listen on, such as `*`; nil for loopback.
  ///   - dataFolder: The folder with resources for the emulator to add or replace; nil for none.
  public init(port: UInt16, address: String? = nil, dataFolder: String? = nil, host: HostFacts) {
    (self.port, self.address, self.dataFolder, self.host) = (port, address, dataFolder, host)
  }

  /// Serves until a signal ends the process.
  ///
  /// - Parameters:
  ///   - findings: The failures to protect the key's memory.
  ///   - announce: Called with instructions, once the server accepts connections.
  public func run(findings: [Finding], announce: ([String]) -> Void) -> CommandResult {
    do {
      let key = try SigningKey.generate(keyID: try KeyID("DEMOKEY001"))
      // The emulator gets a quarter of the descriptors.
      let share = host.openFiles / 4
      // This check precedes all work that needs a descriptor.
      _ = try settings(upstream: "http://127.0.0.1:1", openFiles: host.openFiles - share)
      var options = SandboxOptions(keys: [TrustedKey(team: try TeamID(Self.team), key: key)])
      options.catalog = try SandboxData.catalog(dataFolder)
      let sandbox = try SandboxServer(options, port: 0, openFiles: share)
      defer { sandbox.stop() }
      try Application.serveDemo(
        try settings(upstream: sandbox.url, openFiles: host.openFiles - share), key: key, findings: findings,
        // The demo has only two settings, its flags.
        addressHint: "The flags --host ADDRESS and --port N choose the address."
      ) { announce(guide($0, key, sandbox: sandbox.url)) }
      return CommandResult(.good)
    } catch let error as InvalidSettings where error.errors.allSatisfy({ $0.path == "server.host" }) {
      // The only setting with a value of the command line, beside the port, which is judged before.
      return CommandResult(.usage, diagnostics: error.errors.lines)
    } catch {
      return CommandResult(error, otherwise: .configuration)
    }
  }

  private static let team = "DEMOTEAM01"

  private func settings(upstream: String, openFiles: Int) throws -> Settings {
    var host = host
    host.openFiles = openFiles
    let flags = [
      ("server.host", address ?? "localhost"), ("server.port", "\(port)"), ("admin.port", "\(adminPort)"),
      ("server.page", "true"), ("admin.page", "true"), ("musickit.teamID", Self.team),
      ("musickit.keyFile", "AuthKey_DEMOKEY001.p8"), ("access.anonymous", "{ token: true, catalog: true, me: true }"),
      ("catalog.upstream", upstream), ("catalog.me", "true"),
    ]
    let input = SettingsInput(
      file: nil, environment: [:], environmentKey: nil,
      flags: flags.map { SettingsInput.Flag(name: $0 == "server.host" ? "--host" : "demo", path: $0, value: $1) },
      allowsAnonymous: false, host: host)
    var settings = try Settings.load(input).settings
    settings.access.anonymous = Client(
      id: Client.anonymousID, credential: .anonymous, origins: .loopback, catalog: true, me: true)
    return settings
  }

  /// Any free port. With a flag for the address, as in an image, the default port if it is free, because `healthcheck`
  /// asks there.
  private var adminPort: UInt16 {
    let usual: UInt16 = 8081
    guard address != nil, port != 0, port != usual else { return 0 }
    let isFree = (try? Listener.check(.tcp(host: "127.0.0.1", port: usual), reusesPort: false)) != nil
    return isFree ? usual : 0
  }

  private func guide(_ addresses: Application.Addresses, _ key: SigningKey, sandbox: String) -> [String] {
    guard let first = addresses.public.first(where: { $0.ipAddress?.isIPv4 ?? false }) ?? addresses.public.first else {
      return []
    }
    let port = first.port ?? 0
    let isHere = addresses.areLoopback
    let isEverywhere = ["*", "0.0.0.0", "::"].contains(address)
    let url = isEverywhere ? "http://localhost:\(port)" : addresses.url(first)
    let reach =
      isHere
      ? "Only this machine can reach it."
      : "Every machine that reaches port \(port) here can use it (--host). Admin listener and emulator stay on loopback."
    // Another machine, or the host of a container, has neither this program nor the admin listener.
    let local =
      ["  curl -s -H 'Accept: text/plain' \(url)/token | \(ProgramArguments.name) inspect"]
      + (addresses.admin.first.map { ["  curl -s http://\($0)/readyz"] } ?? [])
    let page = isHere || isEverywhere ? "http://localhost:\(port)" : url
    return addresses.lines + [
      "",
      "This is a demo. Its key \(key.keyID) is new, unknown to Apple, and deleted at the end: the tokens are well-formed,",
      "but Apple Music refuses them. The catalog comes from an emulator at \(sandbox).",
      reach,
      "",
      "Try:",
      "  curl -s \(url)/token",
      "  curl -s '\(url)/token?ttl=3600&origin=http://localhost:3000'",
      "  curl -i '\(url)/v1/catalog/us/search?term=khalid&types=albums'",
      "  curl -s '\(url)/v1/catalog/us/albums/1200868601?include=artists'",
      "  curl -s -H 'Music-User-Token: sandbox-user-token' \(url)/v1/me/library/playlists",
    ] + (isHere ? local : []) + [
      "", "The public key, to verify a signature with:", key.publicKeyPEM, "Open \(page)",
    ]
  }
}
