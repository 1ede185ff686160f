import Glibc
import TestSupport
import Testing

@Suite("The certificate of the emulator")
struct SandboxCertificateTests {
  @Test("is removed with its folder when the emulator ends")
  func removed() throws {
    let sandbox = try ChildProcess(Program.path, ["sandbox", "--port", "0", "--tls"], environment: [:])
    var certificate: String?
    while certificate == nil, let line = try sandbox.line() {
      if line.hasPrefix("Certificate") { certificate = line.split(separator: " ").last.map(String.init) }
    }
    let file = try #require(certificate)
    let folder = String(try #require(file.lastIndex(of: "/").map { file[..<$0] }))
    #expect(unsafe access(file, R_OK) == 0)
    sandbox.signal(SIGTERM)
    #expect(sandbox.wait() == 0)
    #expect(unsafe access(folder, F_OK) != 0)
  }
}

/// Resources of a user's files in the emulator.
@Suite("The flag --data")
struct SandboxDataTests {
  private static let song = #"{"id":"77","type":"songs","attributes":{"name":"Song of the Team"}}"#

  @Test("adds songs to the emulator")
  func sandbox() throws {
    let ground = try Ground()
    // Some editors write a byte order mark.
    _ = try ground.directory.write("\u{FEFF}" + Self.song, to: "song.json")
    let emulator = try Emulator(ground, ["--data", ground.directory.path])
    let token =
      try Program.run(
        ["mint", "--key-file", ground.keyFile, "--team-id", Ground.teamID]).stdout.split(separator: "\n").first ?? ""
    let response = try emulator.request("/v1/catalog/us/songs/77", "-H", "Authorization: Bearer \(token)")
    #expect(response.status == 200)
    #expect(response.text.contains("Song of the Team"))
    emulator.stop()
  }

  @Test("adds songs to the demo")
  func demo() throws {
    let directory = try TemporaryDirectory()
    _ = try directory.write(Self.song, to: "song.json")
    let demo = try RunningServer(["demo", "--port", "0", "--data", directory.path], environment: [:])
    #expect(try demo.request("/v1/catalog/us/search?term=team&types=songs").text.contains("Song of the Team"))
    #expect(demo.stop() == 0)
  }

  @Test("may be a pipe without a writer: a signal ends the wait for it", arguments: ["sandbox", "demo"])
  func pipe(command: String) throws {
    let directory = try TemporaryDirectory()
    #expect(unsafe mkfifo(directory.path(of: "song.json"), 0o600) == 0)
    let process = try ChildProcess(Program.path, [command, "--port", "0", "--data", directory.path], environment: [:])
    process.signal(SIGTERM)
    // After the wait, the status would be 78.
    #expect(process.wait() == 0)
  }

  @Test("says why a file cannot be read", arguments: ["sandbox", "demo"])
  func unreadable(command: String) throws {
    let directory = try TemporaryDirectory()
    #expect(unsafe mkdir(directory.path(of: "song.json"), 0o700) == 0)
    let result = try Program.run([command, "--port", "0", "--data", directory.path])
    #expect(result.status == 78)
    #expect(result.stderr == "The file \"\(directory.path(of: "song.json"))\" of --data is a directory.\n")
  }

  @Test("names file and member of what does not fit, and ends with 78", arguments: ["sandbox", "demo"])
  func refused(command: String) throws {
    let directory = try TemporaryDirectory()
    _ = try directory.write(Self.song, to: "good.json")
    let file = try directory.write(#"{"data":[{"id":"1","type":"songs","attributes":{"nam":"A"}}]}"#, to: "wrong.json")
    let result = try Program.run([command, "--port", "0", "--data", directory.path])
    #expect(result.status == 78)
    #expect(result.stderr == "The data of --data does not fit. \(file): data[0].attributes.name must be a string.\n")
  }

  @Test("needs a folder with JSON files", arguments: ["sandbox", "demo"])
  func noFolder(command: String) throws {
    let directory = try TemporaryDirectory()
    let empty = try Program.run([command, "--port", "0", "--data", directory.path])
    #expect(empty.status == 78)
    #expect(empty.stderr.hasSuffix("must have from 1 to 256 files *.json.\n"))
    let missing = try Program.run([command, "--port", "0", "--data", "\(directory.path)/none"])
    #expect(missing.status == 78)
    #expect(missing.stderr.hasSuffix("of --data cannot be read.\n"))
  }
}
