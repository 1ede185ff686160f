import ArgumentParser
import Commands
import Glibc

struct Sandbox: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sandbox",
    abstract: "Run an Apple Music API to test clients against: it refuses what Apple refuses.")

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

  @Option(
    help: ArgumentHelp("The caching fields of responses: etag, max-age, both, none or mixed.", valueName: "kind"))
  var cacheFields = "mixed"

  func run() throws {
    var command = SandboxCommand()
    command.port = port
    command.keyFiles = keyFile
    command.keyID = keyID
    command.teamID = teamID
    command.dataFolder = data
    command.isSecure = tls
    command.certificateFile = certificateFile
    command.hasWrongCertificate = wrongCertificate
    command.rate = rate
    command.limit = limit
    command.retryAfter = retryAfter
    command.latency = latency
    command.faults = fault
    command.clockSkew = clockSkew
    command.cacheFields = cacheFields
    try command.run { CommandResult.print($0, to: STDOUT_FILENO) }.finish()
  }
}
