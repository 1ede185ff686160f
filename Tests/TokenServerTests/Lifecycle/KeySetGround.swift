import Access
import EventLoop
import HTTPMessages
import Locks
import Logging

@testable import ServerSettings
@testable import TokenServer

/// Key sets with a clock that the test moves and a log that it reads.
final class KeySetGround: Sendable {
  let keySets: KeySets
  let log = Notes()
  private let clock = Clock()
  private let loop: IOLoop

  /// - Parameter timeouts: How long a fetch may take.
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

  /// Has these sources and begins.
  func begin(_ sources: Set<KeySetSource>, environment: [String: String] = [:]) throws {
    try use(sources, environment: environment)
    keySets.begin()
  }

  /// The same with one source whose keys have come: one fetch, whatever is quick and slow.
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

  /// Lets time pass, without more: what is due is fetched at `keySets.refreshDue()`.
  func pass(_ seconds: Int) { clock.pass(seconds) }

  private final class Clock: Sendable {
    private let seconds = Locked(1000)

    var now: Int { seconds.withLock { $0 } }

    func pass(_ duration: Int) { seconds.withLock { $0 += duration } }
  }

  final class Notes: Sendable {
    private let noted = Locked<[String]>([])

    /// What was logged as a warning or worse.
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

extension FileLoader {
  /// What a start reads of the files of key sets.
  init(reading sources: Set<KeySetSource>) {
    self.init()
    for source in sources {
      var client = ClientCandidate()
      switch source {
      case .file(let path): client.keySetFile = path
      case .url(_, let caFile): (client.fetchesKeySet, client.caFile) = (true, caFile)
      }
      addKeySet(of: client, at: "client")
    }
  }
}
