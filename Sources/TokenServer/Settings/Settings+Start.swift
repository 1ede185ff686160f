import Access
public import DeveloperToken
import Glibc
import TLS

extension SettingsDraft {
  /// Opens what the settings name, as far as they could be read: what a start would fail on, and what it would warn of.
  func checkFiles() -> (faults: [SettingsFault], warnings: [String]) {
    let key = musickit?.checkKey() ?? (faults: [], warnings: [])
    let tls = server?.tls?.check() ?? (faults: [], warnings: [])
    let catalog = self.catalog?.check() ?? []
    let access = self.access?.check() ?? (faults: [], warnings: [])
    let audit = self.audit?.check() ?? []
    return (key.faults + tls.faults + catalog + access.faults + audit, key.warnings + tls.warnings + access.warnings)
  }
}

extension Settings.Catalog {
  /// Reads the certificates that the upstream is trusted by.
  fileprivate func check() -> [SettingsFault] {
    do throws(TLSError) {
      _ = try TLSClientContext(caFile: caFile)
      return []
    } catch {
      return [SettingsFault(Self.caFile.path, problem: "\(error)")]
    }
  }
}

extension Settings.Access {
  /// Reads the keys of identity providers, as far as they are in files.
  fileprivate func check() -> (faults: [SettingsFault], warnings: [String]) {
    var faults: [SettingsFault] = []
    var warnings: [String] = []
    for (index, client) in clients.enumerated() {
      guard case .jwt(_, let source) = client.credential else { continue }
      let path = "\(Self.clients.path)[\(index)].jwt"
      switch source {
      case .file(let file):
        let problem = Self.problem(ofKeySet: file, &warnings)
        if let problem { faults.append(SettingsFault("\(path).jwksFile", problem: problem)) }
      case .url(_, let caFile):
        do throws(TLSError) { _ = try TLSClientContext(caFile: caFile) } catch {
          faults.append(SettingsFault("\(path).caFile", problem: "\(error)"))
        }
      }
    }
    return (faults, warnings)
  }

  private static func problem(ofKeySet file: String, _ warnings: inout [String]) -> String? {
    do {
      let keys = try JSONWebKeySet(try SmallFile.read(file, atMost: JSONWebKeySet.limit))
      warnings += keys.findings.map { "The key set \(quoted(file)): \($0)" }
      return nil
    } catch let error as SmallFile.Failure {
      return "the file \(quoted(file)) \(error); write the path of a readable JWK Set."
    } catch {
      return "\(quoted(file)) is no JWK Set that can be used. \(error)"
    }
  }
}

extension Settings.Audit {
  /// Looks whether the file could be opened, and leaves it as it is.
  fileprivate func check() -> [SettingsFault] {
    guard let file else { return [] }
    let folder = file.lastIndex(of: "/").map { String(file[...$0]) } ?? "."
    let exists = unsafe access(file, F_OK) == 0
    guard unsafe access(exists ? file : folder, W_OK) != 0 else { return [] }
    let reason = unsafe String(cString: strerror(errno))
    return [
      SettingsFault(
        Self.file.path, problem: "the file \(quoted(file)) cannot be written: \(reason)",
        remedy: "write a path in a folder that the server may write to")
    ]
  }
}

extension Settings.Server.TLSFiles {
  fileprivate func check() -> (faults: [SettingsFault], warnings: [String]) {
    let unreadable = unreadableFiles()
    let own = checkCertificate(unreadable)
    return (unreadable + own.faults + checkClientCA(unreadable), own.warnings)
  }

  private func checkCertificate(_ unreadable: [SettingsFault]) -> (faults: [SettingsFault], warnings: [String]) {
    let paths = [Settings.Server.certificateFile.path, Settings.Server.keyFile.path]
    guard !unreadable.contains(where: { paths.contains($0.path) }) else { return ([], []) }
    do throws(TLSError) {
      return ([], try TLSContext(certificateFile: certificateFile, keyFile: keyFile).findings)
    } catch {
      return ([SettingsFault("server.tls", problem: "\(error)")], [])
    }
  }

  private func checkClientCA(_ unreadable: [SettingsFault]) -> [SettingsFault] {
    let path = Settings.Server.clientCAFile.path
    guard let clientCAFile, !unreadable.contains(where: { $0.path == path }) else { return [] }
    do throws(TLSError) {
      // Which is what a server reads them as, too.
      _ = try TLSClientContext(caFile: clientCAFile)
      return []
    } catch {
      return [SettingsFault(path, problem: "\(error)")]
    }
  }

  private func unreadableFiles() -> [SettingsFault] {
    let files = [
      (Settings.Server.certificateFile.path, certificateFile), (Settings.Server.keyFile.path, keyFile),
      (Settings.Server.clientCAFile.path, clientCAFile),
    ]
    return files.compactMap { path, file in
      guard let file else { return nil }
      do throws(SmallFile.Failure) {
        _ = try SmallFile.read(file, atMost: 1 << 20)
        return nil
      } catch {
        return SettingsFault(
          path, problem: "the file \(quoted(file)) \(error)", remedy: "write the path of a readable PEM file")
      }
    }
  }
}

extension Settings.MusicKit {
  /// Reads the key and signs a probe with it.
  ///
  /// - Throws: `SigningKeyError`, which says what is there instead of a key.
  public func loadKey() throws(SigningKeyError) -> SigningKey {
    switch key {
    case .file(let path, let keyID): try SigningKey.load(file: path, keyID: keyID)
    case .text(let text, let keyID): try SigningKey(parsing: text, keyID: keyID)
    }
  }

  fileprivate func checkKey() -> (faults: [SettingsFault], warnings: [String]) {
    do throws(SigningKeyError) {
      let key = try loadKey()
      guard key.keyID.description == teamID.description else { return ([], key.findings.map(\.description)) }
      let remedy = "write the key's own ID as musickit.keyID"
      return ([SettingsFault(path, problem: "the key's ID is the same as musickit.teamID", remedy: remedy)], [])
    } catch {
      return ([SettingsFault(path, problem: "\(error)")], [])
    }
  }

  /// The path of the setting that names the key.
  fileprivate var path: String {
    switch key {
    case .file: Self.keyFile.path
    case .text: Self.key.path
    }
  }
}

extension Settings.Token {
  /// The policy that a minter takes.
  ///
  /// - Throws: `TokenPolicyError`, for times beyond Apple's, which settings that were loaded do not have.
  public func policy() throws(TokenPolicyError) -> TokenPolicy {
    try TokenPolicy(
      ttl: Int(ttl.components.seconds), maxTTL: Int(maxTTL.components.seconds),
      backdate: Int(backdate.components.seconds))
  }
}
