import Bytes
package import Cryptography
package import DeveloperToken
import Glibc

extension Settings {
  package struct MusicKit: Sendable {
    package enum Key: Sendable {
      /// A `.p8` file with this path. Without a key ID, the one in the name `AuthKey_<KEYID>.p8` counts.
      case file(String, keyID: KeyID?)
      /// A `.p8` file with this path, whose ID is invalid. The file can be checked, and not used.
      case unnamed(String)
      case text(SecretBytes, keyID: KeyID)
      case remote(Signer, keyID: KeyID)

      /// Creates a key in a file, whose name may have the ID if that of the settings is invalid.
      fileprivate init(file: String, id: KeyID?, isInvalid: Bool) {
        self = isInvalid && KeyID(fileName: file) == nil ? .unnamed(file) : .file(file, keyID: id)
      }
    }

    package struct Keys: Sendable {
      package var active: Key
      /// The path of the setting that names ``active``, for errors.
      let setting: String
      /// Nil without a rotation.
      package var next: NextKey?
      package var retired: [KeyID] = []
    }

    /// `musickit.signer`: who signs in place of the server, which then has only the public half of the key.
    package struct Signer: Sendable, Equatable {
      package let place: RemoteSigner.Place
      package let publicKeyFile: String
      package let timeout: Duration
    }

    package var teamID: TeamID
    package var keys: Keys
  }
}

extension Settings.MusicKit {
  static let teamID = Setting<TeamID>(
    "musickit.teamID",
    .text(
      "10 characters of A-Z and 0-9",
      remedy: "write the Team ID from the membership details of your Apple developer account",
      make: { try? TeamID($0) }), example: #""TEAM123456""#,
    "The 10-character Team ID of your Apple developer account. Required.")
  static let keyID = Setting<KeyID>(
    "musickit.keyID", .keyID, example: #""ABC1234567""#,
    "The key's 10-character ID. Default: the one in the file name `AuthKey_<KEYID>.p8`. Required with "
      + "`musickit.key` and `musickit.signer`.")
  static let keyFile = Setting(
    "musickit.keyFile", .path, example: #""AuthKey_ABC1234567.p8""#,
    "The MusicKit private key, the `.p8` file from Apple. This, `musickit.key`, `musickit.keys` or `musickit.signer` is "
      + "required.")
  static let key = Setting<SecretBytes>(
    "musickit.key", .secret("write the text of the .p8 file"), isSecret: true,
    example: #""-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----\n""#,
    "The key itself, for platforms that pass secrets only in variables. No flag sets it, because other users can "
      + "see flags.")

  static let known: [any SettingRow] = [teamID, keyID, keyFile, key, keys] + Signer.known

  init?(_ reader: inout SettingsReader) {
    let teamID = reader.read(Self.teamID)
    reader.require(Self.teamID.path, remedy: "write the 10-character Team ID of your Apple developer account")
    let keys = Self.readKeys(&reader, team: teamID)
    guard let teamID, let keys else { return nil }
    self.init(teamID: teamID, keys: keys)
  }

  /// Reads where the keys are, which does not depend on the team. Returns nil if they are invalid.
  static func readKeys(_ reader: inout SettingsReader, team: TeamID?) -> Keys? {
    let id = reader.read(keyID)
    if let team, team.description == id?.description {
      reader.reject(
        keyID.path, "is the same as musickit.teamID",
        remedy: "write the key's own ID, the one in its file name AuthKey_<KEYID>.p8")
    }
    if Signer.known.contains(where: { reader.isSet($0.path) }) { return Signer.readKeys(&reader, id: id) }
    if reader.isSet(keys.path) {
      for other in [key.path, keyFile.path, keyID.path] where reader.isSet(other) {
        reader.reject(keys.path, "is set, and so is \(other)", remedy: "keep one of the two")
      }
      return readRotation(&reader)
    }
    let file = reader.read(keyFile)
    let text = reader.read(key)
    switch (reader.isSet(keyFile.path), reader.isSet(key.path)) {
    case (false, false):
      reader.missing(
        keyFile.path, remedy: "write the path of the .p8 file from Apple",
        alternative: ", or its text as \(key.path) or \(key.variable); \(Signer.path) takes a key outside of the server"
      )
    case (true, true): reader.reject(key.path, "is set, and so is musickit.keyFile", remedy: "keep one of the two")
    case (true, false):
      let isInvalid = id == nil && reader.isSet(keyID.path)
      return file.map { Keys(active: Key(file: $0, id: id, isInvalid: isInvalid), setting: keyFile.path) }
    case (false, true):
      if let id { return text.map { Keys(active: .text($0, keyID: id), setting: key.path) } }
      reader.require(keyID.path, remedy: "write the key's 10-character ID, which a key without a file name lacks")
    }
    return nil
  }
}

extension Settings {
  package struct Token: Sendable, Equatable {
    package var ttl = Duration.seconds(12 * 3600)
    package var maxTTL = Duration.seconds(24 * 3600)
    package var backdate = Duration.seconds(60)
  }
}

extension Settings.Token: SettingsSection {
  static let place = SectionPlace(\.token)

  /// Apple's six months in seconds: the maximum lifetime of a token.
  static let cap = 15_777_000

  static let rows: [SectionRow<Self>] = [
    row(
      "token.ttl", .duration(seconds: 60...cap), \.ttl, isLive: true,
      "The lifetime of a token from now. A token in a browser should outlive a listening session, because MusicKit "
        + "JS takes no new token while it plays."),
    row(
      "token.maxTTL", .duration(seconds: 60...cap), \.maxTTL, isLive: true,
      "The longest lifetime that a request may have; if not set, at least `token.ttl`."),
    row(
      "token.backdate", .duration(seconds: 0...3600), \.backdate, isLive: true,
      "How far `iat` lies in the past, for verifiers whose clock is slow."),
  ]

  init?(_ reader: inout SettingsReader) {
    self.init()
    guard read(&reader) else { return nil }
    if reader.isSet("token.maxTTL"), maxTTL < ttl {
      reader.reject(
        "token.maxTTL", "is less than token.ttl",
        remedy: "write \"\(durationText(Int(ttl.components.seconds)))\" or more, or a smaller token.ttl")
    }
    maxTTL = max(ttl, maxTTL)
  }

  /// Returns the policy for a minter. Throws for times beyond Apple's limits, which loaded settings do not have.
  package func policy() throws(TokenPolicyError) -> TokenPolicy {
    try TokenPolicy(
      ttl: Int(ttl.components.seconds), maxTTL: Int(maxTTL.components.seconds),
      backdate: Int(backdate.components.seconds))
  }
}

extension SettingType where Value == KeyID {
  static let keyID = text(
    "10 characters of A-Z and 0-9",
    remedy: "write the key ID that Apple shows beside the key, as in AuthKey_<KEYID>.p8", make: { try? KeyID($0) })
}

extension SettingType where Value == SecretBytes {
  static func secret(_ remedy: String) -> SettingType {
    SettingType(write: { "\"\($0)\"" }) { (content, _) throws(InvalidValue) in
      if case .secret(let secret) = content { return secret }
      guard let text = content.string else { throw .wrongType(content, remedy: remedy) }
      return SecretBytes(copying: Array(text.utf8).span)
    }
  }
}

/// `musickit.keys`: the keys of a rotation. One is active, at most one is next, and the others are retired.
extension Settings.MusicKit {
  /// The key that replaces the active one after Apple Music has accepted a token of it.
  package struct NextKey: Sendable {
    package var key: Key
    /// The path of its element, `musickit.keys[1]`, for errors.
    package var setting: String
    /// Seconds since 1970. Nil if Apple's acceptance suffices.
    package var notBefore: Int?
  }

  enum KeyRole: String, Sendable, CaseIterable {
    case active, next
    /// It never signs. The server only reports it, and does not read its file.
    case retired
  }

  static let keys = Setting(
    "musickit.keys",
    .elements(
      of: .object(of: [id, file, state, notBefore], remedy: "write { file: \"AuthKey_….p8\", state: \"active\" }"),
      atMost: 8, remedy: "write a list of objects such as [{ file: \"AuthKey_….p8\", state: \"active\" }, …]",
      ifEmpty: "name the active key"),
    example: #"""
      [{ file: "AuthKey_ABC1234567.p8", state: "active" }, { file: "AuthKey_DEF1234567.p8", state: "next" }]
      """#,
    "The keys of a [rotation](keys.md#changing-the-key), in place of `musickit.keyFile`: one `active`, at most one "
      + "`next`, eight in all.")
  static let id = Setting<KeyID>(
    "id", .keyID, example: #""ABC1234567""#, "The key's ID. Default: the one in the file name `AuthKey_<KEYID>.p8`.")
  static let file = Setting(
    "file", .path, example: #""AuthKey_ABC1234567.p8""#,
    "The `.p8` file from Apple. Required, unless the key is retired.")
  static let state = Setting<KeyRole>(
    "state", .word, example: #""next""#,
    "`active` signs. `next` signs when Apple Music has accepted a token of it. `retired` never signs. Required.")
  static let notBefore = Setting(
    "notBefore", .time, example: #""2026-12-01T09:00:00Z""#,
    "The time in UTC before which a `next` key does not sign. Default: none.")

  private struct Element {
    let state: KeyRole
    let file: String?
    let id: KeyID?
    let isIDInvalid: Bool
    let notBefore: Int?

    var keyID: KeyID? { id ?? file.flatMap(KeyID.init(fileName:)) }
    var key: Settings.MusicKit.Key? { file.map { .init(file: $0, id: id, isInvalid: isIDInvalid) } }
  }

  static func readRotation(_ reader: inout SettingsReader) -> Keys? {
    guard let elements = reader.readObjects(keys, { readElement(&$0) })?.whole() else { return nil }
    let places = elements.indices.map { "\(keys.path)[\($0)]" }
    let active = elements.indices.filter { elements[$0].state == .active }
    let next = elements.indices.filter { elements[$0].state == .next }
    guard let first = active.first, let key = elements[first].key else {
      reader.reject(keys.path, "has no active key", remedy: "give one of its keys the state \"active\"")
      return nil
    }
    for other in active.dropFirst() {
      reader.reject(places[other], "is a second active key", remedy: "give it the state \"next\" or \"retired\"")
    }
    for other in next.dropFirst() {
      reader.reject(places[other], "is a second next key", remedy: "rotate to one key at a time")
    }
    rejectRepeatedIDs(elements, &reader)
    let replacement = next.first.flatMap { index in
      elements[index].key.map { NextKey(key: $0, setting: places[index], notBefore: elements[index].notBefore) }
    }
    return Keys(
      active: key, setting: places[first], next: replacement,
      retired: elements.filter { $0.state == .retired }.compactMap(\.keyID))
  }

  private static func readElement(_ reader: inout SettingsReader) -> Element? {
    reader.require(state.path, remedy: "write \"active\", \"next\" or \"retired\"")
    let id = reader.read(id)
    let file = reader.read(file)
    let notBefore = reader.read(notBefore)
    guard let state = reader.read(state) else { return nil }
    if state != .retired { reader.require(Self.file.path, remedy: "write the path of the .p8 file from Apple") }
    if state != .next, reader.isSet(Self.notBefore.path) {
      reader.reject(
        Self.notBefore.path, "has no effect on a key that is \(state.rawValue)",
        remedy: "leave it out, or write state: \"next\"")
    }
    let isIDInvalid = id == nil && reader.isSet(Self.id.path)
    let element = Element(state: state, file: file, id: id, isIDInvalid: isIDInvalid, notBefore: notBefore)
    if state == .retired, element.keyID == nil, !reader.isSet(Self.id.path) {
      reader.reject(Self.id.path, "is not set", remedy: "write the ID of the retired key")
    }
    return reader.errors.isEmpty ? element : nil
  }

  /// Rejects a key that occurs twice, because its states contradict each other.
  private static func rejectRepeatedIDs(_ elements: [Element], _ reader: inout SettingsReader) {
    for (index, element) in elements.enumerated() {
      guard let id = element.keyID, let first = elements.firstIndex(where: { $0.keyID == id }), first < index else {
        continue
      }
      reader.reject(
        "\(keys.path)[\(index)]", "has the key ID \(id), which \(keys.path)[\(first)] also has",
        remedy: "keep one of the two, or correct the ID: Apple gives each key its own")
    }
  }
}

extension SettingType where Value == Int {
  /// A time in UTC (RFC 3339 §5.6), in seconds since 1970.
  static let time = string(
    "write a time in UTC such as \"2026-12-01T09:00:00Z\"", write: { "\"\(CivilTime(secondsSinceEpoch: $0))\"" }
  ) { (text, _) throws(InvalidValue) in
    guard let time = CivilTime(text) else {
      throw InvalidValue("\(quoted(text)) is not a time in UTC", remedy: "write one such as \"2026-12-01T09:00:00Z\"")
    }
    return time.secondsSinceEpoch
  }
}

extension Settings.MusicKit.Signer {
  static let path = "musickit.signer"

  static let agent = Setting(
    "musickit.signer.agent", .socketPath, example: #""/run/music-agent/agent.sock""#,
    "The socket of an ssh-agent that has the [key](keys.md#a-key-outside-of-the-server). In place of `musickit.keyFile`."
  )
  static let command = Setting<[String]>(
    "musickit.signer.command",
    .list(
      of: .label("write an argument"), atMost: 64, remedy: "write a list such as [\"/usr/local/bin/sign\", \"music\"]",
      ifEmpty: "write the path of the program first"), example: #"["/usr/local/bin/sign-music-token"]"#,
    "In place of the agent: a program and its arguments. The path is absolute. The program reads what it signs from "
      + "standard input, and prints the signature.")
  static let publicKeyFile = Setting(
    "musickit.signer.publicKeyFile", .path, example: #""public.pem""#,
    "The public half of the key. PEM, or a line of OpenSSH. Required with a signer.")
  static let timeout = Setting(
    "musickit.signer.timeout", .duration(milliseconds: 100...30_000), default: .seconds(5),
    "The longest time of one signature.")

  static let known: [any SettingRow] = [agent, command, publicKeyFile, timeout]

  static func readKeys(_ reader: inout SettingsReader, id: KeyID?) -> Settings.MusicKit.Keys? {
    typealias MusicKit = Settings.MusicKit
    for other in [MusicKit.keyFile.path, MusicKit.key.path, MusicKit.keys.path] where reader.isSet(other) {
      reader.reject(path, "is set, and so is \(other)", remedy: "keep one of the two")
    }
    reader.require(MusicKit.keyID.path, remedy: "write the 10-character ID of the key that the signer has")
    reader.require(publicKeyFile.path, remedy: "write the path of the public half of the signer's key")
    if reader.isSet(Settings.Shared.url.path) {
      reader.reject(
        path,
        "is set, and so is shared.url: the replicas derive their common secret from the private key, which a "
          + "signer does not give them", remedy: "write musickit.keyFile, or remove shared.url")
    }
    let file = reader.read(publicKeyFile)
    let timeout = reader.read(timeout)
    guard let place = readPlace(&reader), let id, let file, let timeout else { return nil }
    let signer = MusicKit.Signer(place: place, publicKeyFile: file, timeout: timeout)
    return MusicKit.Keys(active: .remote(signer, keyID: id), setting: publicKeyFile.path)
  }

  private static func readPlace(_ reader: inout SettingsReader) -> RemoteSigner.Place? {
    let socket = reader.read(agent)
    let arguments = reader.read(command)
    switch (reader.isSet(agent.path), reader.isSet(command.path)) {
    case (true, true):
      reader.reject(command.path, "is set, and so is musickit.signer.agent", remedy: "keep one of the two")
    case (false, false):
      reader.missing(
        path, "has neither agent nor command",
        remedy: "write the path of an agent's socket as musickit.signer.agent, or musickit.signer.command")
    case (true, false): return socket.map { .agent(socket: $0) }
    case (false, true):
      guard let arguments, let program = arguments.first else { return nil }
      if program.hasPrefix("/") { return .command(arguments) }
      reader.reject(
        command.path, "begins with \(quoted(program)), which is no absolute path",
        remedy: "write the program's path from the root; no shell looks for it")
    }
    return nil
  }
}

extension RemoteSigner.Place {
  /// What prevents the signer from ever signing: the setting, the problem and advice. Nil if nothing does. An agent may
  /// start later.
  var problem: (setting: String, problem: String, remedy: String)? {
    typealias Signer = Settings.MusicKit.Signer
    switch self {
    case .agent(let path): return Self.problem(ofSocket: path).map { (Signer.agent.path, $0.problem, $0.remedy) }
    case .command(let arguments):
      return arguments.first.flatMap { Self.problem(of: $0) }.map { (Signer.command.path, $0.problem, $0.remedy) }
    }
  }

  private static func problem(ofSocket path: String) -> (problem: String, remedy: String)? {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFSOCK else { return nil }
    return ("\(quotedPath(path)) is not a socket", "write the path of the agent's socket")
  }

  private static func problem(of program: String) -> (problem: String, remedy: String)? {
    var status = stat()
    guard unsafe stat(program, &status) == 0 else {
      let reason = unsafe String(cString: strerror(errno))
      return ("the program \(quotedPath(program)) cannot be found: \(reason)", "write the path of a program")
    }
    guard status.st_mode & S_IFMT == S_IFREG, unsafe access(program, X_OK) == 0 else {
      return ("the file \(quotedPath(program)) is no program that this user may run", "let the user run it")
    }
    if status.st_mode & 0o002 != 0 {
      return ("every user can change the program \(quotedPath(program))", "change its mode with chmod 755")
    }
    return nil
  }
}
