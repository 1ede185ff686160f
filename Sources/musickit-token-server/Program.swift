import ArgumentParser
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
    MusicKitTokenServer.main()
  }
}
