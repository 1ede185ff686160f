import ArgumentParser
import CSourceRevision
import Commands
import Cryptography
import Glibc
import TokenServer

/// The entry point: the setup of the process, and then the command.
@main
enum Program {
  static func main() {
    prepare()
    var arguments = ProgramArguments.list
    adaptToContainer(&arguments)
    // This check precedes the parser, which quotes arguments that it does not understand.
    if let refusal = MisplacedKey.refusal(of: arguments) {
      CommandResult.print(refusal.diagnostics, to: STDERR_FILENO)
      exit(refusal.status.rawValue)
    }
    do {
      var command = try MusicKitTokenServer.parseAsRoot(arguments == ["-V"] ? ["--version"] : arguments)
      if !ProgramCommands.serves(command) { ProcessSignals.release() }
      try command.run()
    } catch { end(after: error) }
  }

  /// Acts on the first argument of the image's ENTRYPOINT: in a container, loopback is reachable from nowhere, so the demo
  /// listens on every address. Only an argument can do this, because a variable may come from elsewhere.
  private static func adaptToContainer(_ arguments: inout [String]) {
    guard arguments.first == "--container" else { return }
    arguments.removeFirst()
    let namesHost = arguments.contains { $0 == "--host" || $0.hasPrefix("--host=") }
    if arguments.first == "demo", !namesHost { arguments.insert("--host=*", at: 1) }
  }

  /// Ends the program. Help and version are results, which the parser throws, and their output can fail as any other.
  private static func end(after error: any Error) -> Never {
    let text = MusicKitTokenServer.fullMessage(for: error)
    guard MusicKitTokenServer.exitCode(for: error).isSuccess, !text.isEmpty else {
      MusicKitTokenServer.exit(withError: error)
    }
    do throws(ExitCode) {
      try CommandResult(.good, output: [text]).finish()
      exit(EXIT_SUCCESS)
    } catch { exit(error.rawValue) }
  }

  /// Opens the missing standard streams, blocks signals until a command handles them, and protects the memory for keys,
  /// while there is one thread. A write to a closed pipe, or beyond the allowed file size, becomes an error instead of
  /// ending the process. The limit of descriptors rises to the maximum that the system grants.
  private static func prepare() {
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

  /// Opens /dev/null for each closed descriptor of 0 to 2. Otherwise the next socket or pipe would get the number, and the
  /// log. Writing to standard output still fails, because a result that is lost is a failure.
  private static func openStandardStreams() {
    for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
      if unsafe open("/dev/null", number == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0 {
        // There is no usable file system. On an unconnected socket, every read and write fails too.
        _ = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      }
    }
  }
}

struct MusicKitTokenServer: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "musickit-token-server",
    abstract: "Serves Apple Music developer tokens, and Apple's catalog without one.",
    version: "\(Release.version) (\(unsafe String(cString: source_revision())))",
    subcommands: ProgramCommands.all, defaultSubcommand: ProgramCommands.usual)
}
