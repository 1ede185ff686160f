package import DeveloperToken
import Glibc

extension Settings.MusicKit {
  /// `musickit.signer`: who signs in place of the server, which then has only the public half of the key.
  package struct Signer: Sendable, Equatable {
    package let place: RemoteSigner.Place
    package let publicKeyFile: String
    package let timeout: Duration
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
      ifEmpty: "write the path of the program first"),
    example: #"["/usr/local/bin/sign-music-token"]"#,
    "In place of the agent: a program and its arguments. The path is absolute. The program reads what it signs from "
      + "standard input, and prints the signature.")
  static let publicKeyFile = Setting(
    "musickit.signer.publicKeyFile", .path, example: #""public.pem""#,
    "The public half of the key. PEM, or a line of OpenSSH. Required with a signer.")
  static let timeout = Setting(
    "musickit.signer.timeout", .duration(milliseconds: 100...30_000), default: .seconds(5),
    "The longest time of one signature.")

  static let known: [any SettingRow] = [agent, command, publicKeyFile, timeout]

  /// Reads who signs. Returns nil if that is invalid.
  static func readKeys(_ reader: inout SettingsReader, id: KeyID?) -> Settings.MusicKit.Keys? {
    typealias MusicKit = Settings.MusicKit
    for other in [MusicKit.keyFile.path, MusicKit.key.path, MusicKit.keys.path] where reader.isSet(other) {
      reader.reject(path, problem: "is set, and so is \(other)", remedy: "keep one of the two")
    }
    reader.require(MusicKit.keyID.path, remedy: "write the 10-character ID of the key that the signer has")
    reader.require(publicKeyFile.path, remedy: "write the path of the public half of the signer's key")
    if reader.isSet(Settings.Shared.url.path) {
      reader.reject(
        path,
        problem: "is set, and so is shared.url: the replicas derive their common secret from the private key, which a "
          + "signer does not give them",
        remedy: "write musickit.keyFile, or remove shared.url")
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
      reader.reject(command.path, problem: "is set, and so is musickit.signer.agent", remedy: "keep one of the two")
    case (false, false):
      reader.missing(
        path, problem: "has neither agent nor command",
        remedy: "write the path of an agent's socket as musickit.signer.agent, or musickit.signer.command")
    case (true, false): return socket.map { .agent(socket: $0) }
    case (false, true):
      guard let arguments, let program = arguments.first else { return nil }
      if program.hasPrefix("/") { return .command(arguments) }
      reader.reject(
        command.path, problem: "begins with \(quoted(program)), which is no absolute path",
        remedy: "write the program's path from the root; no shell looks for it")
    }
    return nil
  }
}

extension RemoteSigner.Place {
  /// What prevents the server from starting the command: a problem and advice. Nil if nothing does, or without a command.
  var problem: (problem: String, remedy: String)? {
    guard case .command(let arguments) = self, let program = arguments.first else { return nil }
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
