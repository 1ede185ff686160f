import Access
import ArgumentParser
import Cryptography
import DeveloperToken
import EventLoop
import Glibc
import MusicSandbox
import ServerSettings
import TokenServer

/// Runs a server without any configuration: a temporary key, an emulator instead of Apple Music, loopback only unless a
/// flag says otherwise, for every program that reaches it and for pages of this machine.
struct DemoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Run a server with a throwaway key and an emulated catalog, for callers without credentials.")

  @Option(help: "The port to listen on; 0 picks a free one.")
  var port: UInt16 = 8080
  @Option(
    help: ArgumentHelp(
      "The address to listen on; * is every address, for containers. Default: loopback.", valueName: "address"))
  var host: String?
  @Option(help: ArgumentHelp("A folder of JSON files with resources for the emulator.", valueName: "folder"))
  var data: String?

  func run() throws { try result(HostFacts.current()).finish() }

  private func result(_ machine: HostFacts) -> CommandResult {
    do {
      let key = try SigningKey.generate(keyID: try KeyID("DEMOKEY001"))
      // The emulator gets a quarter of the descriptors.
      let share = machine.openFiles / 4
      // This check precedes all work that needs a descriptor.
      var own = machine
      own.openFiles -= share
      _ = try settings(upstream: "http://127.0.0.1:1", own)
      var options = SandboxOptions(keys: [TrustedKey(team: try TeamID(Self.team), key: key)])
      options.catalog = try SandboxData.catalog(data)
      let sandbox = try SandboxServer(options, port: 0, openFiles: share)
      defer { sandbox.stop() }
      try Application.serveDemo(
        try settings(upstream: sandbox.url, own), key: key, findings: SecureMemory.protect(),
        // The demo has only two settings, its flags.
        addressHint: "The flags --host ADDRESS and --port N choose the address."
      ) { CommandResult.print(guide($0, key, sandbox: sandbox.url), to: STDOUT_FILENO) }
      return CommandResult(.good)
    } catch let error as InvalidSettings where error.errors.allSatisfy({ $0.path == "server.host" }) {
      // The only setting with a value of the command line, beside the port, which is judged before.
      return CommandResult(.usage, diagnostics: error.errors.lines)
    } catch {
      return CommandResult(error, otherwise: .configuration)
    }
  }

  private static let team = "DEMOTEAM01"

  private func settings(upstream: String, _ machine: HostFacts) throws -> Settings {
    let flags = [
      ("server.host", host ?? "localhost"), ("server.port", "\(port)"), ("admin.port", "\(adminPort)"),
      ("server.page", "true"), ("admin.page", "true"), ("musickit.teamID", Self.team),
      ("musickit.keyFile", "AuthKey_DEMOKEY001.p8"), ("access.anonymous", "{ token: true, catalog: true, me: true }"),
      ("catalog.upstream", upstream), ("catalog.me", "true"),
    ]
    let input = SettingsInput(flags: flags.map { ($0 == "server.host" ? "--host" : "demo", $0, $1) }, host: machine)
    var settings = try Settings.load(input).settings
    settings.access.anonymous = Client(
      id: Client.anonymousID, credential: .anonymous, origins: .loopback, catalog: true, me: true)
    return settings
  }

  /// Any free port. With a flag for the address, as in an image, that which `healthcheck` asks, if it is free.
  private var adminPort: UInt16 {
    let usual: UInt16 = 8081
    guard host != nil, port != 0, port != usual else { return 0 }
    let isFree = (try? Listener.check(.tcp(host: "127.0.0.1", port: usual), reusesPort: false)) != nil
    return isFree ? usual : 0
  }

  private func guide(_ addresses: Application.Addresses, _ key: SigningKey, sandbox: String) -> [String] {
    guard let first = addresses.public.first(where: { $0.ipAddress?.isIPv4 ?? false }) ?? addresses.public.first else {
      return []
    }
    let port = first.port ?? 0
    let isHere = addresses.areLoopback
    let isEverywhere = ["*", "0.0.0.0", "::"].contains(host)
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
