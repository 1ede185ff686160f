public import ServerSettings

/// Asks a server whether it is well, for images that carry no curl.
public struct HealthCheckCommand: Sendable {
  private let url: String?
  private let input: SettingsInput

  /// The command; without a URL it asks the admin listener of the settings that `input` has.
  public init(url: String?, input: SettingsInput) {
    self.url = url
    self.input = input
  }

  /// Good if the response is 200 within `timeout`.
  public func run(timeout: Duration = .seconds(5)) -> CommandResult {
    do {
      let probe = try HTTPProbe(url: try url ?? adminURL())
      let status = try probe.status(within: timeout)
      guard status == 200 else { return CommandResult(.failed, diagnostics: ["\(probe.url) answered \(status)."]) }
      return CommandResult(.good)
    } catch let error as InvalidSettings {
      return CommandResult(.configuration, diagnostics: error.errors.lines)
    } catch let error as HTTPProbe.InvalidURL {
      return CommandResult(.usage, diagnostics: [error.description])
    } catch let error as NoAdminURL {
      return CommandResult(.configuration, diagnostics: [error.description])
    } catch {
      return CommandResult(.failed, diagnostics: ["\(error)"])
    }
  }

  private func adminURL() throws -> String {
    guard let admin = try Settings.loadAdmin(input) else {
      throw NoAdminURL(description: "The admin listener is turned off (admin.enabled), so --url must say whom to ask.")
    }
    guard admin.port != 0 else {
      throw NoAdminURL(
        description: "The admin listener takes any free port (admin.port is 0), so --url must say which.")
    }
    return "http://\(admin.host.reachableAuthority):\(admin.port)/healthz"
  }

  private struct NoAdminURL: Error {
    let description: String
  }
}
