import Access
import DeveloperToken
import Glibc
package import TLS

/// The files that settings name. `check-config`, a start and a reload all read them by ``load(resumingTicketsOf:)``: what
/// one of them finds wrong, the others do.
package struct NamedFiles: Sendable {
  var musickit: Settings.MusicKit?
  var tls: Settings.Server.TLSFiles?
  var catalog: Settings.Catalog?
  var clients: [ClientCandidate]
  var audit: Settings.Audit?

  /// Reads each file once, and checks what it holds. Blocks: not for an event loop.
  ///
  /// - Parameter previous: The TLS context in use, whose clients may resume their sessions.
  /// - Returns: What the files hold, nil if anything is wrong; all that is wrong; and what there is to warn of.
  package func load(
    resumingTicketsOf previous: TLSContext? = nil
  ) -> (files: LoadedFiles?, errors: [SettingsError], warnings: [String]) {
    var loader = FileLoader()
    let key = musickit.flatMap { loader.key(of: $0) }
    let context = tls.flatMap { loader.context(of: $0, resumingTicketsOf: previous) }
    let upstream = loader.authorities(catalog?.caFile, of: Settings.Catalog.caFile.path, caSetting: "catalog.caFile")
    for (index, client) in clients.enumerated() {
      loader.addKeySet(of: client, at: "\(Settings.Access.clients.path)[\(index)]")
    }
    loader.errors += audit?.check() ?? []
    guard loader.errors.isEmpty, let key, let upstream else { return (nil, loader.errors, loader.warnings) }
    let files = LoadedFiles(
      key: key, tls: context, upstreamAuthorities: upstream, keySets: loader.keySets, warnings: loader.warnings)
    return (files, [], loader.warnings)
  }

  /// The files that a reload reads: these, without fixed ones that `running` uses already, and with the certificate that
  /// `running` needs even if `settings` no longer name it. A changed or missing fixed file must not prevent the server
  /// from loading a new key or a new list of clients.
  package func keepingFixed(of running: Settings, comparedWith settings: Settings) -> NamedFiles {
    var files = self
    if settings.catalog == running.catalog { files.catalog = nil }
    if settings.audit == running.audit { files.audit = nil }
    files.tls = files.tls ?? running.server.tls
    return files
  }
}

extension Settings.Audit {
  /// Looks whether the file could be opened, and leaves it as it is.
  func check() -> [SettingsError] {
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
