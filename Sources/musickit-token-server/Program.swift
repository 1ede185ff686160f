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
    do {
      var command = try MusicKitTokenServer.parseAsRoot()
      let serves = command is Serve || command is Demo || command is Sandbox
      if !serves { ProcessSignals.release() }
      try command.run()
    } catch {
      MusicKitTokenServer.exit(withError: error)
    }
  }
}
