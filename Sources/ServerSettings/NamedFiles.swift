import Access
import Glibc
import TLS

/// The files that settings name. A start and a reload look at all of them before anything of the settings is in use, and
/// so does `check-config`: what one of them finds wrong, the others do.
package struct NamedFiles: Sendable {
  var musickit: Settings.MusicKit?
  var tls: Settings.Server.TLSFiles?
  var catalog: Settings.Catalog?
  var clients: [ClientCandidate]
  var audit: Settings.Audit?

  /// Opens them: what a start would fail on, and what it would warn of. Blocks: not for an event loop.
  package func check() -> (errors: [SettingsError], warnings: [String]) {
    let key = musickit?.checkKey() ?? (errors: [], warnings: [])
    let tls = tls?.check() ?? (errors: [], warnings: [])
    let catalog = catalog?.check() ?? []
    let clients = clients.enumerated().map { $1.check(at: "\(Settings.Access.clients.path)[\($0)]") }
    let audit = audit?.check() ?? []
    return (
      key.errors + tls.errors + catalog + clients.flatMap(\.errors) + audit,
      key.warnings + tls.warnings + clients.flatMap(\.warnings)
    )
  }

  /// These files, without the fixed ones that `running` uses and that a reload does not change. A changed or missing
  /// fixed file must not prevent the server from loading a new key or a new list of clients.
  package func leavingOutFixed(of running: Settings, comparedWith settings: Settings) -> NamedFiles {
    var files = self
    if settings.catalog == running.catalog { files.catalog = nil }
    if settings.audit == running.audit { files.audit = nil }
    return files
  }
}

extension Settings.Catalog {
  /// Reads the certificates that the upstream is trusted by.
  fileprivate func check() -> [SettingsError] {
    do throws(TLSError) {
      _ = try TLSClientContext(caFile: caFile)
      return []
    } catch {
      return [SettingsError(Self.caFile.path, problem: "\(error)")]
    }
  }
}

extension ClientCandidate {
  /// Reads the keys of its identity provider, if they are in a file, and whom to trust for them, if they are not.
  fileprivate func check(at path: String) -> (errors: [SettingsError], warnings: [String]) {
    var errors: [SettingsError] = []
    var warnings: [String] = []
    if let keySetFile, let (problem, remedy) = Self.problem(ofKeySet: keySetFile, &warnings) {
      errors.append(SettingsError("\(path).jwt.jwksFile", problem: problem, remedy: remedy))
    }
    if fetchesKeySet {
      do throws(TLSError) { _ = try TLSClientContext(caFile: caFile) } catch {
        errors.append(SettingsError("\(path).jwt.caFile", problem: "\(error)"))
      }
    }
    return (errors, warnings)
  }

  private static func problem(
    ofKeySet file: String, _ warnings: inout [String]
  ) -> (problem: String, remedy: String?)? {
    let json: [UInt8]
    do { json = try SmallFile.read(file, atMost: JSONWebKeySet.limit) } catch {
      return ("the file \(quotedPath(file)) \(error)", "write the path of a readable JWK Set")
    }
    if json.first(where: { $0 > 0x20 }) == UInt8(ascii: "<") {
      return (
        "the file \(quotedPath(file)) holds a web page",
        "write the path of a JWK Set, JSON of the form {\"keys\": […]}"
      )
    }
    do { warnings += try JSONWebKeySet(json).findings.map { "The key set \(quotedPath(file)): \($0)" } } catch {
      return ("\(quotedPath(file)) is no JWK Set that can be used. \(error)", nil)
    }
    return nil
  }
}

extension Settings.Audit {
  /// Looks whether the file could be opened, and leaves it as it is.
  fileprivate func check() -> [SettingsError] {
    guard let file else { return [] }
    guard let reason = Self.obstacle(file) else { return [] }
    return [
      SettingsError(
        Self.file.path, problem: "the file \(quotedPath(file)) \(reason)",
        remedy: "write the path of a file in a folder that the server may write to")
    ]
  }

  private static func obstacle(_ file: String) -> String? {
    var status = stat()
    let exists = unsafe stat(file, &status) == 0
    // A folder may be writable, too, but not in this way.
    if exists, status.st_mode & S_IFMT == S_IFDIR { return "is a directory" }
    let folder = file.lastIndex(of: "/").map { String(file[...$0]) } ?? "."
    guard unsafe access(exists ? file : folder, W_OK) != 0 else { return nil }
    return "cannot be written: \(unsafe String(cString: strerror(errno)))"
  }
}
