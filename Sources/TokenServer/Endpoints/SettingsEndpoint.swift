import HTTPServer
import JSON
import Locks
import ServerSettings

/// The admin endpoint `GET /config`: the settings in force, where each was written, and what a reload would change.
struct SettingsEndpoint: Sendable {
  let settings: Settings
  let entries: [SettingEntry]
  /// What the layers had at the start of each setting that needs a restart.
  let written: [String?]
  /// Reads the settings as a reload does; nil inside if there is nothing to reload.
  let load: Locked<Reloader.Load?>

  func route(_ rule: OwnPageRule) -> Route { Route(getOnThread: "/config", rule) { .json(document.bytes) } }

  private var document: JSONValue {
    let all = entries.map { entry -> (String, JSONValue?) in
      (entry.path, entry.value.map { ["value": $0, "source": .text(entry.source ?? "default")] })
    }
    return .object(of: [("settings", .object(of: all)), ("reload", reload)])
  }

  /// What a reload would do now; nil if there is nothing to reload.
  private var reload: JSONValue? {
    guard let load = load.withLock({ $0 }) else { return nil }
    do throws(InvalidSettings) {
      let next = try load()
      let fixed = next.settings.needingRestart(next.written, since: settings, written)
      let changes = zip(entries, next.entries).filter { $0.value != $1.value }.map { _, next -> (String, JSONValue?) in
        (next.path, ["value": next.value ?? .null, "needsRestart": .bool(fixed.contains(next.path))])
      }
      return ["changes": .object(of: changes), "errors": []]
    } catch {
      return ["changes": [:], "errors": .strings(error.errors.lines)]
    }
  }
}
