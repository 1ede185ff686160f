import ArgumentParser
import Glibc
import TokenServer

/// Runs a server with nothing to configure.
struct Demo: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Run a server with a throwaway key, on loopback only, for everybody there.")

  @Option(help: "The port to listen on; 0 picks a free one.")
  var port: UInt16 = 8080

  func run() throws {
    try DemoCommand(port: port, host: .current()).run(findings: ProcessSetup.findings) {
      CommandResult.print($0, to: STDOUT_FILENO)
    }.finish()
  }
}
