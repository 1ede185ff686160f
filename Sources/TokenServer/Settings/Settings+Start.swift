public import DeveloperToken
import TLS

extension Settings.Server.TLSFiles {
  /// What is wrong with the files of a TLS server.
  func check() -> (faults: [SettingsFault], warnings: [String]) {
    let unreadable = unreadableFiles()
    let own = checkCertificate(unreadable)
    let authorities = checkClientCA(unreadable)
    return (unreadable + own.faults + authorities.faults, own.warnings + authorities.warnings)
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

  private func checkClientCA(_ unreadable: [SettingsFault]) -> (faults: [SettingsFault], warnings: [String]) {
    let path = Settings.Server.clientCAFile.path
    guard let clientCAFile, !unreadable.contains(where: { $0.path == path }) else { return ([], []) }
    do throws(TLSError) {
      // Which is what a server reads them as, too.
      return ([], try TLSClientContext(caFile: clientCAFile).findings)
    } catch {
      return ([SettingsFault(path, problem: "\(error)")], [])
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

  /// What is wrong with the key.
  func checkKey() -> (faults: [SettingsFault], warnings: [String]) {
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
