import ArgumentParser
import CSourceRevision
import Cryptography
import Glibc
import TokenServer

/// The process: what must be so before anything else happens, and then the commands.
@main
enum Program {
  static func main() {
    ProcessSetup.prepare()
    // The parser quotes what it does not understand.
    if let refusal = MisplacedKey.refusal(of: CommandLine.arguments.dropFirst()) {
      CommandResult.print(refusal.diagnostics, to: STDERR_FILENO)
      exit(refusal.status.rawValue)
    }
    do {
      let arguments = Array(CommandLine.arguments.dropFirst())
      var command = try MusicKitTokenServer.parseAsRoot(arguments == ["-V"] ? ["--version"] : arguments)
      let serves = command is Serve || command is Demo || command is Sandbox
      if !serves { ProcessSignals.release() }
      try command.run()
    } catch {
      MusicKitTokenServer.exit(withError: error)
    }
  }
}

/// The commands.
struct MusicKitTokenServer: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "musickit-token-server",
    abstract: "Serves Apple Music developer tokens, and Apple's catalog without one.",
    version: "\(Release.version) (\(unsafe String(cString: source_revision())))",
    subcommands: [
      Serve.self, Demo.self, Sandbox.self, Mint.self, Inspect.self, CheckConfig.self, HealthCheck.self, NewAPIKey.self,
    ],
    defaultSubcommand: Serve.self)
}

/// What the process does to itself at the start, while there is one thread.
enum ProcessSetup {
  /// What could not be had of the protection for keys.
  static var findings: [Finding] { SecureMemory.protect() }

  /// Opens what is missing of the three standard streams, holds signals back until a command takes them, protects the
  /// memory for keys, makes a write to a closed pipe, or beyond a file's allowed size, an error instead of
  /// the end, and raises the number of descriptors to what the system grants.
  static func prepare() {
    openStandardStreams()
    ProcessSignals.hold()
    _ = SecureMemory.protect()
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    let descriptors = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard unsafe getrlimit(descriptors, &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    unsafe setrlimit(descriptors, &limit)
  }

  /// Opens /dev/null for each of the descriptors 0 to 2 that is closed. The system gives the lowest free number to
  /// whatever is opened next: a socket or a pipe of the server's own would be written to as its log.
  private static func openStandardStreams() {
    for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
      if unsafe open("/dev/null", O_RDWR) < 0 {
        // No file system to speak of: a socket that is connected to nothing fails every read and write as well.
        _ = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      }
    }
  }
}

extension CommandResult {
  /// Prints what there is to print and ends the command.
  ///
  /// - Throws: `ExitCode` unless the status is good and what was asked for could be written.
  func finish() throws(ExitCode) {
    let failure = Self.print(output, to: STDOUT_FILENO).map { code in
      "Standard output cannot be written: \(unsafe String(cString: strerror(code)))."
    }
    Self.print(diagnostics + [failure].compactMap { $0 }, to: STDERR_FILENO)
    if status != .good { throw ExitCode(status.rawValue) }
    if failure != nil { throw ExitCode(Status.failed.rawValue) }
  }

  /// Writes lines without a buffer, so that none are lost or out of order at the end.
  ///
  /// - Returns: The error that ended it early; nil if all is written.
  @discardableResult
  static func print(_ lines: [String], to descriptor: Int32) -> Int32? {
    var rest = Array(lines.map { $0 + "\n" }.joined().utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 || errno == EINTR else { return errno }
      rest = rest.dropFirst(max(count, 0))
    }
    return nil
  }
}
