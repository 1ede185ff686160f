package import DeveloperToken
import Glibc
package import TLS

/// The parts of the files, for checks that do not depend on the other parts. Each is nil if one of its files is unusable;
/// the errors are those of ``load(resumingTicketsOf:)``.
extension NamedFiles {
  package func loadKeys() -> (active: SigningKey, next: SigningKey?)? {
    part { loader in musickit.flatMap { loader.keys(of: $0) } }
  }

  package func loadTLS() -> TLSContext? {
    part { loader in tls.flatMap { loader.context(of: $0, resumingTicketsOf: nil) } }
  }

  package func loadUpstreamAuthorities() -> TLSClientContext? {
    part { $0.authorities(catalog?.caFile, of: Settings.Catalog.caFile.path, caSetting: "catalog.caFile") }
  }

  package func loadStore() -> StoreFiles? {
    part { loader in shared.map { loader.store(of: $0) } }
  }

  /// Returns the authorities for the collector; a nil inside if it is not reached by TLS.
  package func loadCollectorAuthorities() -> TLSClientContext?? {
    part { loader in spanExport.map { loader.authorities(of: $0) } }
  }

  package func loadKeySets() -> KeySetFiles? {
    part { loader in
      for client in clients { loader.addKeySet(of: client, at: "") }
      return loader.keySets
    }
  }

  private func part<Part>(_ load: (inout FileLoader) -> Part?) -> Part? {
    var loader = FileLoader()
    let part = load(&loader)
    return loader.errors.isEmpty ? part : nil
  }

  /// The files with secrets that users other than their owner and group can read, or that other users can replace. A
  /// secret on a read-only file system has the mode that the platform gives it.
  package var exposedSecrets: [(setting: String, path: String, mode: UInt32)] {
    paths.compactMap { setting, path in
      let isSecret =
        setting.hasPrefix("musickit.") || setting.hasSuffix(".keyFile")
        || setting.hasPrefix(Settings.Server.ticketKeyFiles.path) || setting == Settings.Shared.passwordFile.path
      var (status, system) = (stat(), statvfs())
      guard isSecret, unsafe stat(path, &status) == 0, unsafe statvfs(path, &system) == 0,
        system.f_flag & UInt(ST_RDONLY) == 0, status.st_mode & 0o026 != 0
      else { return nil }
      return (setting, path, status.st_mode & 0o7777)
    }
  }
}
