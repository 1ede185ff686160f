import Glibc
import TestSupport
import Testing

@Suite("A signal during the start")
struct EarlySignalTests {
  @Test("causes a reload after the start if it is SIGHUP")
  func hangUp() throws {
    let ground = try Ground()
    let process = try Self.start(ground)
    process.signal(SIGHUP)
    while let line = try process.line(), !line.hasPrefix("Admin on ") {}
    try process.waitForErrors("Configuration reloaded")
    process.signal(SIGTERM)
    #expect(process.wait() == 0)
  }

  @Test("ends the server with status 0", arguments: [SIGTERM, SIGINT])
  func end(_ signal: Int32) throws {
    let ground = try Ground()
    let process = try Self.start(ground)
    process.signal(signal)
    #expect(process.wait() == 0)
  }

  @Test("ends a command other than serve with the signal's default action")
  func otherCommand() throws {
    // The command waits for a token on standard input.
    let process = try ChildProcess(Program.path, ["inspect"], holdsInput: true)
    try Self.wait(until: "SigBlk", has: SIGTERM, isSet: false, in: process)
    process.signal(SIGTERM)
    #expect(process.wait() == 128 + SIGTERM)
  }

  /// A server at the beginning of `main`.
  private static func start(_ ground: Ground) throws -> ChildProcess {
    let process = try ChildProcess(Program.path, [], environment: ground.settings)
    try wait(until: "SigBlk", has: SIGHUP, isSet: true, in: process)
    return process
  }

  /// Waits until a signal mask in `/proc/PID/status` has the expected value.
  private static func wait(until mask: String, has signal: Int32, isSet: Bool, in process: ChildProcess) throws {
    try eventually("the signal \(signal) is \(isSet ? "held back" : "let through")") {
      // Before exec the masks are those of the test process.
      let isRunning = try run("readlink", ["/proc/\(process.id)/exe"]).stdout.hasPrefix(Program.path)
      let status = try TextFile.read("/proc/\(process.id)/status")
      let line = status.split(separator: "\n").first { $0.hasPrefix("\(mask):") }
      let value = line?.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) }
      return isRunning && value.map { ($0 >> UInt64(signal - 1) & 1 == 1) == isSet } == true
    }
  }
}
