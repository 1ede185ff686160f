package import Access
import Bytes
import Cryptography
package import DeveloperToken
import Glibc
import HTTPMessages
package import TLS

/// The files that the settings name. `check-config`, a start and a reload all read them with ``load(resumingTicketsOf:)``,
/// so all three find the same errors.
package struct NamedFiles: Sendable {
  var team: TeamID?
  var keys: Settings.MusicKit.Keys?
  package var tls: Settings.Server.TLSFiles?
  var upstreamCAFile: String?
  var clients: [ClientCandidate]
  var audit: Settings.Audit?
  var spanExport: Settings.SpanExport?
  var shared: Settings.Shared?
  /// The configuration file, which is read before.
  var configuration: String?
  var readingTime: ReadingTime

  /// Reads and validates each file once. It blocks, so no event loop may call it. The clients of the `previous` TLS context
  /// may resume their sessions.
  package func load(resumingTicketsOf previous: TLSContext? = nil) -> LoadedFiles {
    var loader = FileLoader(within: readingTime)
    let keys = loader.part { loader in self.keys.flatMap { loader.keys(in: $0, team: team) } }
    let context = loader.part { loader in tls.flatMap { loader.context(of: $0, resumingTicketsOf: previous) } }
    let upstream = loader.part { $0.authorities(upstreamCAFile, of: "catalog.caFile") }
    let keySets = loader.part { loader in
      for (index, client) in clients.enumerated() {
        loader.addKeySet(of: client, at: "\(Settings.Access.clients.path)[\(index)]")
      }
      return loader.keySets
    }
    let settings = configuration.map { [("--config or MUSICKIT_CONFIG", $0)] } ?? []
    if let error = audit?.check(others: paths + settings) { loader.errors.append(error) }
    let store = loader.part { loader in shared.map { loader.store(of: $0) } }
    let collector = loader.part { loader in
      spanExport.map {
        $0.endpoint.origin.isSecure ? loader.authorities($0.certificate, of: $0.certificateSetting) : nil
      }
    }
    return LoadedFiles(
      keys: keys, tls: context, upstreamAuthorities: upstream, collectorAuthorities: collector, store: store,
      keySets: keySets, errors: loader.errors, warnings: loader.warnings)
  }

  /// Returns the files that a reload reads. It keeps the certificate of `running` even if the settings no longer name it,
  /// and leaves out an audit file that the server has open, which may be on a full disk.
  package func keepingFixed(of running: Settings) -> NamedFiles {
    var files = self
    if files.audit == running.audit { files.audit = nil }
    files.tls = files.tls ?? running.server.tls
    return files
  }

  /// The path of each file that the server reads, with the setting that names it.
  package var paths: [(setting: String, path: String)] {
    var paths: [(String, String?)] = [
      (keys?.setting ?? "", keys?.active.path), (keys?.next?.setting ?? "", keys?.next?.key.path),
      ("server.tls.certificateFile", tls?.certificateFile), ("server.tls.keyFile", tls?.keyFile),
      ("server.tls.clientCAFile", tls?.clientCAFile), ("catalog.caFile", upstreamCAFile),
      (spanExport?.certificateSetting ?? "", spanExport?.certificate),
      ("shared.passwordFile", shared?.passwordFile), ("shared.caFile", shared?.caFile),
    ]
    for (index, path) in (tls?.ticketKeyFiles ?? []).enumerated() {
      paths.append(("server.tls.ticketKeyFiles[\(index)]", path))
    }
    for (index, pair) in (tls?.certificates ?? []).enumerated() {
      let place = "server.tls.certificates[\(index)]"
      paths += [("\(place).certificateFile", pair.certificateFile), ("\(place).keyFile", pair.keyFile)]
    }
    for (index, client) in clients.enumerated() {
      let place = "\(Settings.Access.clients.path)[\(index)].jwt"
      paths += [("\(place).jwksFile", client.keySetFile), ("\(place).caFile", client.caFile)]
    }
    return paths.compactMap { setting, path in path.map { (setting, $0) } }
  }

  /// The files with secrets that users other than their owner and group can read, or that other users can replace. A
  /// secret on a read-only file system has the mode that the platform gives it.
  package var exposedSecrets: [(setting: String, path: String, mode: UInt32)] {
    paths.compactMap { setting, path in
      let isSecret =
        setting.hasSuffix(".keyFile") || setting == "shared.passwordFile"
        || setting.hasPrefix("musickit.") && setting != "musickit.signer.publicKeyFile"
        || setting.hasPrefix("server.tls.ticketKeyFiles")
      var (status, system) = (stat(), statvfs())
      guard isSecret, unsafe stat(path, &status) == 0, unsafe statvfs(path, &system) == 0,
        system.f_flag & UInt(ST_RDONLY) == 0, status.st_mode & 0o026 != 0
      else { return nil }
      return (setting, path, status.st_mode & 0o7777)
    }
  }
}

/// The content of the files. Each is read once, and used exactly as it was validated. A part is nil if the settings do not
/// name it, or if one of its files is unusable.
package struct LoadedFiles: Sendable {
  package let keys: (active: SigningKey, next: SigningKey?)?
  package let tls: TLSContext?
  /// Without a file, the system's.
  package let upstreamAuthorities: TLSClientContext?
  /// The authorities for the collector; a nil inside if it is not reached by TLS.
  package let collectorAuthorities: TLSClientContext??
  package let store: StoreFiles?
  package let keySets: KeySetFiles?
  package let errors: [SettingsError]
  /// Oddities of files that are usable nevertheless, each described in one sentence for the operator.
  package let warnings: [String]
}

/// The content of the files of identity providers, by path.
package struct KeySetFiles: Sendable {
  package internal(set) var keys: [String: JSONWebKeySet] = [:]
  package internal(set) var authorities: [String: TLSClientContext] = [:]

  package init() {}
}

/// A reader of files. It reads each file once, even if several settings name it, and collects the errors.
struct FileLoader {
  private let time: ReadingTime
  var errors: [SettingsError] = []
  private(set) var warnings: [String] = []
  private(set) var keySets = KeySetFiles()
  private var pemFiles: [String: Result<PEMFile, PEMFile.Failure>] = [:]
  private var keySetFiles: [String: Result<JSONWebKeySet, InvalidValue>] = [:]

  init(within time: ReadingTime = ReadingTime()) { self.time = time }

  /// Returns what `load` reads, or nil if that has errors.
  mutating func part<Part>(_ load: (inout FileLoader) -> Part?) -> Part? {
    let known = errors.count
    let part = load(&self)
    return errors.count == known ? part : nil
  }

  /// Returns the signing key, and the next key of a rotation, after each has signed a probe.
  mutating func keys(in places: Settings.MusicKit.Keys, team: TeamID?) -> (active: SigningKey, next: SigningKey?)? {
    let active = load(places.active, of: places.setting, team: team)
    guard let place = places.next else { return active.map { ($0, nil) } }
    guard let next = load(place.key, of: place.setting, team: team), let active else { return nil }
    guard next.fingerprint != active.fingerprint else {
      note(place.setting, "is the active key under another ID", remedy: "name the file of the new key")
      return nil
    }
    return (active, next)
  }

  private mutating func load(_ place: Settings.MusicKit.Key, of setting: String, team: TeamID?) -> SigningKey? {
    guard let key = noting(setting, { try place.load() }) ?? nil else { return nil }
    guard key.keyID.description != team?.description else {
      note(
        setting, "the key's ID is the same as musickit.teamID",
        remedy: "write the key's own ID, the one in its file name AuthKey_<KEYID>.p8")
      return nil
    }
    warnings += key.findings.map(\.description)
    if let (setting, problem, remedy) = key.remote?.place.problem { note(setting, problem, remedy: remedy) }
    return key
  }

  /// Returns the context of a TLS server. It reports the errors of all files, not only those of the first.
  mutating func context(of files: Settings.Server.TLSFiles, resumingTicketsOf previous: TLSContext?) -> TLSContext? {
    let certificate = files.certificateFile.flatMap { pem($0, of: "server.tls.certificateFile") }
    let key = files.keyFile.flatMap { pem($0, of: "server.tls.keyFile") }
    let further = files.certificates.enumerated().compactMap { index, pair in
      self.certificate(of: pair, at: "server.tls.certificates[\(index)]")
    }
    let path = "server.tls.clientCAFile"
    let clientCA = files.clientCAFile.flatMap { pem($0, of: path) }
    // Checked separately from the certificate, so that errors of both are reported.
    let trusted = clientCA.flatMap { file in noting(path) { try TLSClientContext(authorities: file, caSetting: path) } }
    let ticketKeys = ticketKeys(in: files.ticketKeyFiles)
    var context: TLSContext?
    if let certificate, let key {
      context = noting("server.tls") {
        try TLSContext(
          certificate: certificate, key: key, further: further, clientCA: trusted == nil ? nil : clientCA,
          applicationProtocols: (files.http2 ? ["h2"] : []) + ["http/1.1", "http/1.0"], resumingTicketsOf: previous,
          sharedTicketKeys: ticketKeys)
      }
    }
    warnings += context?.findings ?? trusted?.findings ?? []
    return context
  }

  /// Returns the keys of session tickets in these files. Nil without files, or if one of them is unusable.
  private mutating func ticketKeys(in paths: [String]) -> TicketKeys? {
    let setting = "server.tls.ticketKeyFiles"
    let files = paths.enumerated().compactMap { index, path in
      noting("\(setting)[\(index)]") { try TicketKeyFile(path) }
    }
    guard !files.isEmpty, files.count == paths.count, let keys = noting(setting, { try TicketKeys(files) }) else {
      return nil
    }
    warnings += keys.findings
    return keys
  }

  private mutating func certificate(
    of files: Settings.Server.CertificateFiles, at place: String
  ) -> ServerCertificate? {
    let certificate = files.certificateFile.flatMap { pem($0, of: "\(place).certificateFile") }
    let key = files.keyFile.flatMap { pem($0, of: "\(place).keyFile") }
    guard let certificate, let key else { return nil }
    return noting(place) { try ServerCertificate(certificate: certificate, key: key) }
  }

  /// Returns those of the file, or the system's. Nil if it is unusable. Errors of connections name `caSetting`.
  mutating func authorities(_ path: String?, of setting: String, caSetting: String? = nil) -> TLSClientContext? {
    let caSetting = caSetting ?? setting
    guard let path else { return noting(setting) { try TLSClientContext(caSetting: caSetting) } }
    do throws(PEMFile.Failure) {
      let file = try read(path)
      return noting(setting) { try TLSClientContext(authorities: file, caSetting: caSetting) }
    } catch {
      note(setting, "\(error.of(path))")
      return nil
    }
  }

  mutating func store(of shared: Settings.Shared) -> StoreFiles {
    let trusted = shared.address.isSecure ? authorities(shared.caFile, of: "shared.caFile") : nil
    return StoreFiles(password: shared.passwordFile.flatMap { password(in: $0) }, authorities: trusted)
  }

  /// Returns the only line of a file, without its end. Nil if it is unusable.
  private mutating func password(in path: String) -> SecretBytes? {
    let setting = "shared.passwordFile"
    do throws(SmallFile.Failure) {
      // With its line end.
      var bytes = try SmallFile.read(path, atMost: 1024, within: time)
      defer { bytes.wipe() }
      let end = bytes.last == UInt8(ascii: "\n") ? bytes.count - 1 : bytes.count
      guard end > 0, !bytes[..<end].contains(where: { $0 == 0x0A || $0 == 0 }) else {
        note(setting, "the file \(quotedPath(path)) is empty or has several lines", remedy: "write the password alone")
        return nil
      }
      return SecretBytes(copying: bytes.span.extracting(..<end))
    } catch {
      note(setting, "the file \(quotedPath(path)) \(error)", remedy: "write the path of a readable file")
      return nil
    }
  }

  /// Reads the key set of the client's identity provider if it is in a file, otherwise the authorities for fetching it.
  mutating func addKeySet(of client: ClientCandidate, at place: String) {
    if let file = client.keySetFile {
      do throws(InvalidValue) { keySets.keys[file] = try keys(in: file) } catch {
        note("\(place).jwt.jwksFile", error.problem, remedy: error.remedy)
      }
    }
    if let file = client.caFile, keySets.authorities[file] == nil {
      keySets.authorities[file] = authorities(file, of: "\(place).jwt.caFile", caSetting: "jwt.caFile")
    }
  }

  private mutating func keys(in file: String) throws(InvalidValue) -> JSONWebKeySet {
    if let known = keySetFiles[file] { return try known.get() }
    let keys = Result { () throws(InvalidValue) in try Self.readKeys(in: file, within: time) }
    keySetFiles[file] = keys
    warnings += (try? keys.get())?.findings.map { "The key set \(quotedPath(file)): \($0)" } ?? []
    return try keys.get()
  }

  private static func readKeys(in file: String, within time: ReadingTime) throws(InvalidValue) -> JSONWebKeySet {
    let json: [UInt8]
    do { json = try SmallFile.read(file, atMost: JSONWebKeySet.limit, within: time) } catch {
      throw InvalidValue("the file \(quotedPath(file)) \(error)", remedy: "write the path of a readable JWK Set")
    }
    if json.first(where: { $0 > 0x20 }) == UInt8(ascii: "<") {
      throw InvalidValue(
        "the file \(quotedPath(file)) is a web page",
        remedy: "write the path of a JWK Set, JSON of the form {\"keys\": […]}")
    }
    do { return try JSONWebKeySet(json) } catch {
      throw InvalidValue("\(quotedPath(file)) is not a usable JWK Set. \(error)", remedy: nil)
    }
  }

  private mutating func pem(_ path: String, of setting: String) -> PEMFile? {
    do throws(PEMFile.Failure) {
      return try read(path)
    } catch {
      switch error {
      case .system(let code): noteUnreadable(path, SmallFile.failure(code, at: path), of: setting)
      case .isDirectory: noteUnreadable(path, .isDirectory, of: setting)
      case .isEmpty, .isNotRegular, .isTooLarge: note(setting, "\(error.of(path))")
      }
      return nil
    }
  }

  private mutating func read(_ path: String) throws(PEMFile.Failure) -> PEMFile {
    let file = pemFiles[path] ?? Result { () throws(PEMFile.Failure) in try PEMFile(reading: path) }
    pemFiles[path] = file
    return try file.get()
  }

  private mutating func noteUnreadable(_ path: String, _ failure: SmallFile.Failure, of setting: String) {
    note(setting, "the file \(quotedPath(path)) \(failure)", remedy: "write the path of a readable PEM file")
  }

  /// Returns the result of `make`. If it throws, returns nil and records the error.
  private mutating func noting<Value>(_ setting: String, _ make: () throws -> Value) -> Value? {
    do { return try make() } catch {
      note(setting, "\(error)")
      return nil
    }
  }

  private mutating func note(_ path: String, _ problem: String, remedy: String? = nil) {
    errors.append(SettingsError(path, problem: problem, remedy: remedy))
  }
}

extension Settings.MusicKit.Key {
  fileprivate var path: String? {
    switch self {
    case .file(let path, _), .unnamed(let path): path
    case .remote(let signer, _): signer.publicKeyFile
    case .text: nil
    }
  }

  /// Loads the key and signs a probe with it. Returns nil if the key has no valid ID.
  fileprivate func load() throws(SigningKeyError) -> SigningKey? {
    switch self {
    case .file(let path, let keyID): return try SigningKey.load(file: path, keyID: keyID)
    case .text(let text, let keyID): return try SigningKey(parsing: text, keyID: keyID)
    case .remote(let signer, let keyID):
      return try SigningKey(
        of: signer.place, publicKeyFile: signer.publicKeyFile, timeout: signer.timeout, keyID: keyID)
    case .unnamed(let path):
      // Any ID does for the check of the file.
      if let keyID = try? KeyID("0000000000") { _ = try SigningKey.load(file: path, keyID: keyID) }
      return nil
    }
  }
}
