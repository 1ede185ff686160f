import DeveloperToken
import EventLoop
import HTTPServer
import Logging
import MusicSandbox
import Telemetry

/// The Apple Music emulator on a port of this machine.
struct SandboxServer {
  let server: Server
  private let loop: EventLoop

  /// Listens, on a loop of its own.
  ///
  /// - Parameter port: 0 picks a free one.
  /// - Throws: A sentence.
  init(_ options: SandboxOptions, port: UInt16, observer: any ExchangeObserver) throws {
    loop = try EventLoop.start(label: "sandbox")
    let configuration = Server.Configuration(endpoint: .tcp(host: "127.0.0.1", port: port), observer: observer)
    server = try Server(configuration, router: Sandbox(options).router, loops: [loop])
  }

  /// Where it listens.
  var url: String { server.addresses.first.map { "http://\($0)" } ?? "" }

  /// Answers what has arrived, and ends.
  func stop() {
    server.drain(timeout: .seconds(1))
    loop.stop()
  }
}

/// Listens to nothing.
struct SilentObserver: ExchangeObserver {
  let recordsExchanges = false

  func completed(_ exchange: borrowing Exchange) {}

  func noticed(_ notice: ServerNotice) {}
}
