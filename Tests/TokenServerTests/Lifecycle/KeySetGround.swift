import Access
import EventLoop
import HTTPMessages
import Locks
import Logging

@testable import ServerSettings
@testable import TokenServer

/// Key sets with a clock that the test advances and a log that the test reads.
final class KeySetGround: Sendable {
  let keySets: KeySets
  let log = Notes()
  private let clock = Clock()
  private let loop: IOLoop

  /// - Parameter timeouts: The limits for a fetch.
  init(timeouts: UpstreamTimeouts = KeySetFetch.timeouts) throws {
    loop = try IOLoop.start(label: "test")
    var context = KeySetContext(logger: Logger(label: "test") { [log] _ in NotingHandler(notes: log) })
    context.clock = { [clock] in clock.now }
    context.timeouts = timeouts
    keySets = KeySets(loops: [loop], context: context)
  }

  deinit {
    keySets.close()
    loop.stop()
  }

  /// Configures these sources and starts the fetches.
  func begin(_ sources: Set<KeySetSource>, environment: [String: String] = [:]) throws {
    try use(sources, environment: environment)
    keySets.begin()
  }

  /// Starts with one source whose keys are already present, so that exactly one fetch happens regardless of timing.
  func begin(having source: KeySetSource) async throws -> JSONWebKeySet? {
    try use([source])
    let keys = await keySets.table.fresh(source)
    keySets.begin()
    return keys
  }

  func use(_ sources: Set<KeySetSource>, environment: [String: String] = [:]) throws {
    let files = FileLoader(reading: sources).keySets
    keySets.use(
      keySets.table(of: try NamedKeySets(sources, files: files, proxies: ProxyEnvironment(environment))))
  }

  /// Advances the clock only. `keySets.refreshDue()` starts the fetches that are due.
  func pass(_ seconds: Int) { clock.pass(seconds) }

  private final class Clock: Sendable {
    private let seconds = Locked(1000)

    var now: Int { seconds.withLock { $0 } }

    func pass(_ duration: Int) { seconds.withLock { $0 += duration } }
  }

  final class Notes: Sendable {
    private let noted = Locked<[String]>([])

    /// The messages at level warning or above.
    var warnings: [String] { noted.withLock { $0 } }

    func note(_ event: LogEvent) {
      guard event.level >= .warning else { return }
      noted.withLock { $0.append(event.message.description) }
    }
  }

  struct NotingHandler: LogHandler {
    let notes: Notes
    var logLevel = Logger.Level.trace
    var metadata: Logger.Metadata = [:]

    init(notes: Notes) { self.notes = notes }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { notes.note(event) }
  }
}

extension KeySetTable {
  /// Returns the keys of a source after a fetch, if there may be one.
  func fresh(_ source: KeySetSource, isFirst: Bool = false) async -> JSONWebKeySet? {
    await refresh([source], lacking: isFirst ? [source] : [])
    return present(source)
  }
}

extension FileLoader {
  /// Reads the files of key sets as a start does.
  init(reading sources: Set<KeySetSource>) {
    self.init()
    for source in sources {
      var client = ClientCandidate()
      switch source {
      case .file(let path): client.keySetFile = path
      case .url(_, let caFile), .issuer(_, let caFile): client.caFile = caFile
      }
      addKeySet(of: client, at: "client")
    }
  }
}
