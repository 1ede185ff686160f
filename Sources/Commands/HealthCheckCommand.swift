import ArgumentParser
import Bytes
import EventLoop
import HTTP1
import HTTPClient
import HTTPMessages
import HTTPTypes
import ServerSettings
import TokenServer

/// Requests the health of a server, for images without curl.
struct HealthCheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "healthcheck",
    abstract: "Exit 0 if a URL responds with 200. Default: /healthz of the admin listener in the settings of serve.")

  @Option(help: ArgumentHelp("The URL to check, http:// only.", valueName: "url"))
  var url: String?

  @OptionGroup var settings: SettingsOptions

  func run() throws { try Self.result(url, settings.input()).finish() }

  /// Returns success if the response is 200 within `timeout`. Without a URL, it queries the admin listener in the settings
  /// of `input`.
  static func result(
    _ url: String?, _ input: SettingsInput, timeout: Duration = .seconds(5)
  ) -> CommandResult {
    do {
      let url = try HealthCheckURL(try url ?? adminURL(input))
      let limits = UpstreamTimeouts(connect: timeout, firstByte: timeout, whole: timeout)
      switch try url.reply(limits: limits, contentLimit: 0) {
      case .success(let reply) where reply.status == 200: return CommandResult(.good)
      case .success(let reply): throw CommandError(.failed, "\(url.text) responded with status \(reply.status).")
      case .failure(let error): throw CommandError(.failed, "\(url.text) did not respond. \(error)")
      }
    } catch {
      return CommandResult(error, otherwise: .failed)
    }
  }

  private static func adminURL(_ input: SettingsInput) throws -> String {
    guard let admin = try Settings.loadAdmin(input) else {
      throw CommandError(
        .configuration, "The admin listener is off (admin.enabled), so --url must name the URL to check.")
    }
    guard admin.port != 0 else {
      throw CommandError(
        .configuration, "The admin listener uses any free port (admin.port is 0), so --url must name the URL to check.")
    }
    return "http://\(admin.host.reachableAuthority):\(admin.port)/healthz"
  }
}

/// The components of the `http` URL of a health check.
struct HealthCheckURL {
  let text: String
  /// The host without brackets.
  let host: String
  let port: UInt16
  /// Path and query, in origin form (RFC 9112 §3.2.1).
  let target: String

  init(_ text: String) throws(CommandError) {
    let isPlain = text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    guard isPlain, text.hasPrefix("http://") else {
      let reason = text.hasPrefix("https://") ? "health checks use plain HTTP only" : "it is not an http:// URL"
      throw CommandError(.usage, "The server cannot check this URL: \(reason).")
    }
    let rest = text.dropFirst("http://".count)
    let authority = rest.prefix { !"/?#".contains($0) }
    let target = rest.dropFirst(authority.count).prefix { $0 != "#" }
    let colon = authority[(authority.lastIndex(of: "]") ?? authority.startIndex)...].lastIndex(of: ":")
    let host = authority[..<(colon ?? authority.endIndex)]
    let digits = colon.map { authority[authority.index(after: $0)...] } ?? "80"
    guard !host.isEmpty, !authority.contains("@"), let port = UInt16(digits), port > 0 else {
      throw CommandError(.usage, "The server cannot check this URL: its host or port is malformed.")
    }
    self.text = text
    self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : String(host)
    self.port = port
    self.target = target.hasPrefix("/") ? String(target) : "/" + target
  }

  /// Sends a `GET` on a loop of its own, and blocks this thread until the response.
  func reply(limits: UpstreamTimeouts, contentLimit: Int) throws -> Result<UpstreamReply, UpstreamError> {
    let loop = try IOLoop.start(label: "check")
    defer { loop.stopAndWait() }
    let client = UpstreamClient(UpstreamClient.Configuration(.http, host: host, port: port), loop: loop)
    defer { client.close() }
    let request = UpstreamRequest(
      .get, ByteString(target), fields: [.userAgent: "musickit-token-server/\(Release.version)"])
    return client.reply(to: request, limits: limits, contentLimit: contentLimit)
  }
}
