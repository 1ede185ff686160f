import DeveloperToken
import EventLoop
import HTTPServer
import Logging
import MusicSandbox
import Telemetry

/// The Apple Music emulator on a port of this machine.
struct SandboxServer {
  let server: Server
  private let loop: IOLoop
  private let scheme: String

  /// Listens, on a loop of its own.
  ///
  /// - Parameters:
  ///   - port: 0 picks a free one.
  ///   - openFiles: The descriptors that it may have open, and no fewer than `leastOpenFiles`.
  /// - Throws: A sentence.
  init(
    _ options: SandboxOptions, port: UInt16, openFiles: Int, certificate: SandboxCertificate? = nil,
    observer: any ExchangeObserver
  ) throws {
    guard openFiles >= Self.leastOpenFiles, Descriptor.areAvailable(Self.leastOpenFiles) else {
      throw StartError(
        """
        The emulator needs \(Self.leastOpenFiles) descriptors, and the system does not grant so many beside those that \
        are open: \(DescriptorBudget.remedy).
        """)
    }
    loop = try IOLoop.start(label: "sandbox")
    var configuration = Server.Configuration(endpoint: .tcp(host: "127.0.0.1", port: port), observer: observer)
    configuration.tls = certificate?.context
    configuration.speaksHTTP2 = true
    configuration.limits.connections = min(configuration.limits.connections, openFiles - Self.ownFiles)
    // All of its callers are on this machine, and may well be one.
    configuration.limits.connectionsPerAddress = configuration.limits.connections
    // A fault may delay a response for as long as a test likes.
    configuration.limits.work = .seconds(3600)
    scheme = certificate == nil ? "http" : "https"
    server = try Server(configuration, router: Sandbox(options).router, loops: [loop])
  }

  /// Its loop's poller and pipe, its listener, Dispatch's, and what is open for a moment.
  private static let ownFiles = 10
  /// These, and a few connections.
  static let leastOpenFiles = ownFiles + 6

  /// Where it listens.
  var url: String { server.addresses.first.map { "\(scheme)://\($0)" } ?? "" }

  /// Answers what has arrived, and ends.
  func stop() {
    server.drain(timeout: .seconds(1))
    loop.stopAndWait()
  }
}

/// Listens to nothing.
struct SilentObserver: ExchangeObserver {
  let recordsExchanges = false

  func completed(_ exchange: borrowing Exchange) {}

  func noticed(_ notice: ServerNotice) {}
}
