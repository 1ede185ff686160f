import ArgumentParser
import DeveloperToken
import EventLoop
import Glibc
import MusicSandbox
import ServerSettings
import TLS
import TokenServer

struct SandboxCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sandbox", abstract: "Run an Apple Music API to test clients against: it refuses what Apple refuses.")

  @Option(help: "The port of 127.0.0.1 to listen on; 0 picks a free one.")
  var port: UInt16 = 8082
  @Option(
    help: ArgumentHelp(
      "A key whose tokens the emulator accepts; may be repeated. Default: a new key.", valueName: "file"))
  var keyFile: [String] = []
  @Option(help: ArgumentHelp("The key's ID. Default: the one in the file's name.", valueName: "id"))
  var keyID: String?
  @Option(help: ArgumentHelp("The team whose tokens the emulator accepts.", valueName: "id"))
  var teamID = "DEMOTEAM01"
  @Option(help: ArgumentHelp("A folder of JSON files with resources to add or replace.", valueName: "folder"))
  var data: String?
  @Flag(help: "Serve HTTPS, HTTP/2 and HTTP/1.1, with a new certificate.")
  var tls = false
  @Option(help: ArgumentHelp("Where to write that certificate.", valueName: "file"))
  var certificateFile: String?
  @Flag(help: "Issue the certificate for another host.")
  var wrongCertificate = false
  @Option(help: ArgumentHelp("The rate in requests a second; further requests get 429.", valueName: "number"))
  var rate: Int?
  @Option(
    help: ArgumentHelp(
      "The limit: bucket:20/1s, fixed-window:20/1s or sliding-window:20/1s. Further requests get 429.",
      valueName: "limit"))
  var limit: String?
  @Option(help: ArgumentHelp("none, seconds or date: the Retry-After of that 429.", valueName: "form"))
  var retryAfter = "none"
  @Option(help: ArgumentHelp("The time before each response, as in 100ms.", valueName: "time"))
  var latency: String?
  @Option(help: ArgumentHelp("The faults of every request, as in delay=1s,status=503.", valueName: "faults"))
  var fault: String?
  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Seconds by which the emulator's clock is ahead; behind if negative.", valueName: "seconds"))
  var clockSkew = 0
  @Option(help: ArgumentHelp("The caching fields of responses: etag, max-age, both, none or mixed.", valueName: "kind"))
  var cacheFields = "mixed"

  func run() throws { try result().finish() }

  private func result() -> CommandResult {
    do {
      try serve()
      return CommandResult(.good)
    } catch let error as ListenError {
      return CommandResult(StartError(error, hint: "The flag --port N chooses the port."), otherwise: .configuration)
    } catch {
      return CommandResult(error, otherwise: .configuration)
    }
  }

  private func serve() throws {
    var (keys, notes) = try signingKeys()
    if !tls, certificateFile != nil || wrongCertificate {
      notes.insert("Without --tls there is no certificate.", at: 0)
    }
    let options = try options(keys)
    let certificate = tls ? try SandboxCertificate(self) : nil
    defer { certificate?.removeFolder() }
    let openFiles = HostFacts.current().openFiles
    let sandbox = try SandboxServer(options, port: port, openFiles: openFiles, certificate: certificate)
    CommandResult.print(["Listening on \(sandbox.url)"] + (certificate?.notes ?? []) + notes, to: STDOUT_FILENO)
    _ = ProcessSignals.next()
    sandbox.stop()
  }

  private func signingKeys() throws -> ([SigningKey], notes: [String]) {
    guard keyFile.isEmpty else {
      guard keyID == nil || keyFile.count == 1 else {
        throw CommandError(.usage, "--key-id names one key, so it needs exactly one --key-file.")
      }
      let keys = try keyFile.map { try SigningKey.load(file: $0, keyID: try keyID.map { try KeyID($0) }) }
      let names = keys.map(\.keyID.description).joined(separator: ", ")
      return (keys, ["It accepts tokens of key \(names) and team \(teamID)."])
    }
    let key = try SigningKey.generate(keyID: try KeyID(keyID ?? "DEMOKEY001"))
    let minter = try TokenMinter(key: key, team: try TeamID(teamID), policy: try TokenPolicy())
    let token = try minter.token(now: Glibc.time(nil))
    let note = "Without --key-file, it accepts tokens of a new key. This token is valid for 12 hours:"
    return ([key], [note, token.string])
  }

  private func options(_ keys: [SigningKey]) throws -> SandboxOptions {
    let team = try TeamID(teamID)
    var sandbox = SandboxOptions(keys: keys.map { TrustedKey(team: team, key: $0) })
    sandbox.catalog = try SandboxData.catalog(data)
    if tls, port != 0 { sandbox.baseURL = "https://localhost:\(port)" }
    guard rate == nil || limit == nil else { throw CommandError(.usage, "--rate and --limit exclude each other.") }
    if let rate, sandbox.set(.limit, to: "bucket:\(rate)/1s") == nil {
      throw CommandError(.usage, "--rate is not a number of requests from 1 to 1000000.")
    }
    let flags: [(name: String, option: SandboxOptions.Text, text: String?)] = [
      ("--limit", .limit, limit), ("--retry-after", .retryAfter, retryAfter), ("--latency", .latency, latency),
      ("--clock-skew", .clockSkew, "\(clockSkew)"), ("--cache-fields", .cacheFields, cacheFields),
      ("--fault", .fault, fault),
    ]
    for (name, option, text) in flags {
      guard let text, sandbox.set(option, to: text) == nil else { continue }
      throw CommandError(.usage, "\(name) \(quoted(text)) is not \(option.form).")
    }
    return sandbox
  }
}

/// The emulator's certificate, in a temporary folder unless a flag names a file.
struct SandboxCertificate {
  let context: TLSContext
  let notes: [String]
  private let folder: String

  init(_ command: SandboxCommand) throws {
    let names = command.wrongCertificate ? ["DNS:elsewhere.example"] : ["DNS:localhost", "IP:127.0.0.1", "IP:::1"]
    let made = try ThrowawayCertificate(for: names)
    var template = Array("/tmp/musickit-sandbox.XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else {
      throw StartError("The emulator cannot make a folder for its certificate in /tmp.")
    }
    folder = String(decoding: template.dropLast().map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    let keyFile = "\(folder)/key.pem"
    let certificateFile = command.certificateFile ?? "\(folder)/certificate.pem"
    do {
      try Self.write(made.certificatePEM, to: certificateFile)
      try Self.write(made.keyPEM, to: keyFile)
      context = try TLSContext(
        certificate: PEMFile(certificateFile), key: PEMFile(keyFile), applicationProtocols: ["h2", "http/1.1"])
    } catch {
      Self.remove(folder)
      throw error
    }
    unsafe unlink(keyFile)
    notes = ["Certificate for clients to trust: \(certificateFile)"]
  }

  func removeFolder() { Self.remove(folder) }

  private static func remove(_ folder: String) {
    for name in ["key.pem", "certificate.pem"] { unsafe unlink("\(folder)/\(name)") }
    unsafe rmdir(folder)
  }

  private static func write(_ text: String, to path: String) throws {
    let error = StartError("The emulator cannot write the file \(quoted(path)).")
    guard let file = unsafe fopen(path, "wx") ?? fopen(path, "w") else { throw error }
    let isWritten = unsafe fputs(text, file) >= 0
    // What is in the buffer reaches the file only here.
    guard unsafe fclose(file) == 0, isWritten else { throw error }
  }
}

/// The files of `--data`, which add resources to the emulator or replace its own.
enum SandboxData {
  /// The maximum number of files, and the maximum size of each in bytes.
  private static let highest = (files: 256, size: 16 << 20)

  /// Returns a catalog with the resources of a folder's files `*.json`, in the order of their names. Throws a sentence. A
  /// signal ends the process meanwhile.
  static func catalog(_ folder: String?) throws -> Catalog {
    guard let folder else { return .builtIn }
    ProcessSignals.endAtOnce()
    defer { ProcessSignals.hold() }
    let time = ReadingTime()
    let files = try names(folder).map { name in try file("\(folder)/\(name)", within: time) }
    do throws(DataError) { return try Catalog(adding: files) } catch {
      throw StartError("The data of --data does not fit. \(error)")
    }
  }

  private static func file(_ path: String, within time: ReadingTime) throws -> SandboxFile {
    do throws(SmallFile.Failure) {
      let content = try SmallFile.read(path, atMost: highest.size, within: time)
      // Some editors write a byte order mark, which a reader may skip (RFC 8259 §8.1).
      let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
      // A copy, because the array that was read has room for the largest file.
      return SandboxFile(name: path, content: Array(content.dropFirst(content.starts(with: mark) ? 3 : 0)))
    } catch {
      let limit = error == .tooLarge ? ": the limit is \(highest.size >> 20) MiB" : ""
      throw StartError("The file \(quoted(path)) of --data \(error)\(limit).")
    }
  }

  private static func names(_ folder: String) throws -> [String] {
    guard let directory = unsafe opendir(folder) else {
      throw StartError("The folder \(quoted(folder)) of --data cannot be read.")
    }
    defer { unsafe _ = closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      // Safe: the entry is valid until the next call, and its name ends with a zero byte.
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name.hasSuffix(".json"), !name.hasPrefix(".") { names.append(name) }
    }
    guard (1...highest.files).contains(names.count) else {
      throw StartError("The folder \(quoted(folder)) of --data must have from 1 to \(highest.files) files *.json.")
    }
    return names.sorted()
  }
}
