import ArgumentParser
import Bytes
import Dispatch
import EventLoop
import Glibc
import HTTP1
import HTTPClient
import HTTPMessages
import HTTPTypes
import Locks
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

  static func result(_ url: String?, _ input: SettingsInput, timeout: Duration = .seconds(5)) -> CommandResult {
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

struct HealthCheckURL {
  let text: String
  let host: String
  let port: UInt16
  /// Path and query, in origin form (RFC 9112 §3.2.1).
  let target: String

  init(_ text: String) throws(CommandError) {
    guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), text.hasPrefix("http://") else {
      let reason =
        text.hasPrefix("https://")
        ? "it is https://, and checks use plain HTTP only, as the admin listener does" : "it is not an http:// URL"
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

  func withClient<Value>(_ body: (UpstreamClient) throws -> Value) throws -> Value {
    try UpstreamClient.withOwnLoop(UpstreamClient.Configuration(.http, host: host, port: port), body)
  }

  /// Sends a `GET`, and blocks this thread until the response.
  func reply(limits: UpstreamTimeouts, contentLimit: Int) throws -> Result<UpstreamReply, UpstreamError> {
    let request = UpstreamRequest(
      .get, ByteString(target), fields: [.userAgent: "musickit-token-server/\(Release.version)"])
    return try withClient { $0.reply(to: request, limits: limits, contentLimit: contentLimit) }
  }
}

/// The parts of a response that matter to a command.
struct UpstreamReply: Sendable {
  let status: Int
  let date: String?
  /// The first bytes of the content, at most as many as the command wants.
  let content: [UInt8]
  let isComplete: Bool
  /// This machine's time at the request and at the response, in seconds since 1970.
  let times: ClosedRange<Int>
  var isSuccess: Bool { (200..<300).contains(status) }
}

extension UpstreamClient {
  /// Returns the result of `body` with a client on a loop of its own, for commands without one.
  static func withOwnLoop<Value>(
    _ configuration: Configuration, _ body: (UpstreamClient) throws -> Value
  ) throws -> Value {
    let loop = try IOLoop.start(label: "check")
    defer { loop.stopAndWait() }
    let client = UpstreamClient(configuration, loop: loop)
    defer { client.close() }
    return try body(client)
  }

  /// Sends a request and blocks this thread until the response has arrived.
  func reply(
    to request: UpstreamRequest, limits: UpstreamTimeouts, contentLimit: Int
  ) -> Result<UpstreamReply, UpstreamError> {
    let outcome = Locked<Result<UpstreamReply, UpstreamError>>(
      .failure(UpstreamError(.cancelled, .unprocessed, "The request was cancelled.")))
    let isDone = DispatchSemaphore(value: 0)
    Task(executorPreference: loop) {
      do throws(UpstreamError) {
        let start = Glibc.time(nil)
        let response = try await self.send(request, limits: limits)
        let times = start...max(start, Glibc.time(nil))
        let (content, isComplete) = await response.content.beginning(contentLimit)
        let reply = UpstreamReply(
          status: response.status.code, date: response.fields[.date], content: content, isComplete: isComplete,
          times: times)
        outcome.withLock { $0 = .success(reply) }
      } catch {
        outcome.withLock { $0 = .failure(error) }
      }
      isDone.signal()
    }
    // The timeouts of the client bound this wait.
    isDone.wait()
    return outcome.withLock { $0 }
  }
}

extension ContentReader {
  /// Returns the first bytes of the content, at most `limit`, and whether they are all. Ends the reading.
  fileprivate func beginning(_ limit: Int) async -> ([UInt8], isComplete: Bool) {
    defer { cancel() }
    var content: [UInt8] = []
    do throws(ContentError) {
      while content.count <= limit, limit > 0 {
        guard let part = try await read() else { return (content, true) }
        content += part
      }
    } catch {}
    return (Array(content.prefix(limit)), false)
  }
}
