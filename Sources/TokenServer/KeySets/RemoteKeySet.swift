import Access
import Bytes
import Dispatch
import EventLoop
import HTTP1
import HTTPClient
import HTTPMessages
import HTTPTypes
import Locks
import Logging
import ServerSettings

/// The key set of one provider. The server fetches it by its schedule, and keeps it until a newer one arrives.
///
/// Many callers share one fetch.
final class RemoteKeySet: Sendable {
  private let url: KeySetURL
  private let loop: IOLoop
  private let clock: @Sendable () -> Int
  private let timeouts: UpstreamTimeouts
  private let logger: Logger
  private let throttle = Throttle()
  /// Called on the loop after each fetch.
  private let ended: @Sendable () -> Void
  /// The group of all fetches in flight, which the end of the process waits for.
  private let underWay: DispatchGroup

  private let state: Locked<State>

  private struct State {
    var configuration: UpstreamClient.Configuration
    var schedule = KeySetSchedule()
    var keys: JSONWebKeySet?
    var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    var tickets = 0
    var fetch: Task<Void, Never>?
    var fetches = 0
    var failures = 0
    var isClosed = false
  }

  /// The maximum number of callers that wait for a fetch: 1000. Further callers use the present keys at once, so that
  /// strangers with invented tokens cannot fill the server while a provider is slow.
  private static let mostWaiting = 1000

  /// Creates a key set without keys.
  ///
  /// - Parameters:
  ///   - clock: Returns the seconds of a monotonic clock.
  ///   - ended: Called on the loop after each fetch.
  init(
    _ url: KeySetURL, _ configuration: UpstreamClient.Configuration, loop: IOLoop, context: KeySetContext,
    ended: @escaping @Sendable () -> Void
  ) {
    self.url = url
    state = Locked(State(configuration: configuration))
    self.loop = loop
    clock = context.clock
    timeouts = context.timeouts
    logger = context.logger
    underWay = context.underWay
    self.ended = ended
  }

  /// The present keys; nil before the first successful fetch.
  var present: JSONWebKeySet? { state.withLock { $0.keys } }

  /// The time of the next fetch; in the past if one is due or in flight.
  var nextAt: Int { state.withLock { $0.schedule.nextAt } }

  /// The counts of this key set.
  var counts: KeySetCounts {
    state.withLock { state in
      let age = state.schedule.fetchedAt.map { clock() - $0 }
      return KeySetCounts(
        fetches: state.fetches, failures: state.failures, missing: age == nil ? 1 : 0, oldestAge: age)
    }
  }

  /// Uses another configuration for further fetches.
  func use(_ configuration: UpstreamClient.Configuration) {
    state.withLock { $0.configuration = configuration }
  }

  /// Fetches the set if its schedule allows it.
  func refresh(_ occasion: KeySetSchedule.Occasion) {
    state.withLock { begin(occasion, &$0) }
  }

  /// Whether a fetch is in flight, or may begin for a JWT that the present keys do not verify.
  var mayFetch: Bool {
    state.withLock { state in
      !state.isClosed && (state.fetch != nil || state.schedule.allows(.unknownKey, now: clock()))
    }
  }

  /// Waits for the fetch in flight, or for a new one if the schedule allows it, and returns the keys. Otherwise returns
  /// the present keys at once. A cancelled task stops waiting.
  func fresh() async -> JSONWebKeySet? {
    let ticket = state.withLock { state in
      state.tickets += 1
      return state.tickets
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isWaiting = state.withLock { state in
          begin(.unknownKey, &state)
          // A task that was cancelled before it is on the list would wait until the end of the fetch.
          guard state.fetch != nil, state.waiting.count < Self.mostWaiting, !Task.isCancelled else { return false }
          state.waiting[ticket] = continuation
          return true
        }
        if !isWaiting { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiting.removeValue(forKey: ticket) }?.resume()
    }
    return present
  }

  /// Cancels a fetch in flight, and prevents further ones.
  func close() {
    let fetch = state.withLock { state in
      state.isClosed = true
      return state.fetch
    }
    fetch?.cancel()
  }

  // MARK: A fetch

  private func begin(_ occasion: KeySetSchedule.Occasion, _ state: inout State) {
    guard !state.isClosed, state.schedule.begin(for: occasion, now: clock()) else { return }
    underWay.enter()
    let configuration = state.configuration
    state.fetch = Task(executorPreference: loop) { [self] in
      let client = UpstreamClient(configuration, loop: loop)
      do throws(KeySetFetch.Failure) {
        end(.success(try await KeySetFetch(target: url.target, timeouts: timeouts).run(with: client)))
      } catch {
        end(.failure(error))
      }
      client.close()
      underWay.leave()
    }
  }

  /// Records and logs the result before it resumes the waiters, because they may read both.
  private func end(_ result: Result<KeySetFetch.Fetched, KeySetFetch.Failure>) {
    let (earlier, isClosed) = state.withLock { ($0.keys, $0.isClosed) }
    switch result {
    case _ where isClosed: break
    case .success(let fetched): tell(fetched.keys, after: earlier)
    case .failure(let failure): tell(failure, keeping: earlier)
    }
    let waiting = state.withLock { state in
      note(result, &state)
      defer { (state.waiting, state.fetch) = ([:], nil) }
      return state.waiting
    }
    for continuation in waiting.values { continuation.resume() }
    ended()
  }

  private func note(_ result: Result<KeySetFetch.Fetched, KeySetFetch.Failure>, _ state: inout State) {
    state.fetches += 1
    switch result {
    case .success(let fetched):
      state.keys = fetched.keys
      state.schedule.succeeded(now: clock(), maxAge: fetched.maxAge)
    case .failure:
      state.failures += 1
      state.schedule.failed(now: clock())
    }
  }

  // MARK: The log

  private func tell(_ keys: JSONWebKeySet, after earlier: JSONWebKeySet?) {
    logger.debug("Key set fetched", metadata: ["keys.url": "\(url)", "keys.count": "\(keys.count)"])
    guard keys.findings != earlier?.findings else { return }
    for finding in keys.findings { logger.warning("\(url): \(finding)") }
  }

  private func tell(_ failure: KeySetFetch.Failure, keeping earlier: JSONWebKeySet?) {
    guard let suppressed = throttle.admit("failed") else { return }
    let consequence =
      earlier == nil ? "Until the server has them, it accepts no JWT that they sign." : "The earlier keys stay in use."
    logger.warning(
      "The server could not fetch the keys at \(url). \(failure) \(consequence)",
      metadata: suppressed > 0 ? ["suppressed": "\(suppressed)"] : [:])
  }
}

/// One request for a key set. The response can cost no more than its limits.
struct KeySetFetch {
  /// The result of a fetch.
  struct Fetched: Sendable {
    let keys: JSONWebKeySet
    /// The lifetime in seconds that the provider states (RFC 9111 §4.2.1); nil if it states none.
    let maxAge: Int?
  }

  /// The reason why a fetch failed: a sentence for the operator.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// The timeouts of a fetch: 5 s for the connection, 10 s in all.
  static let timeouts = UpstreamTimeouts(connect: .seconds(5), firstByte: .seconds(10), whole: .seconds(10))

  let target: String
  let timeouts: UpstreamTimeouts

  /// Sends the request and reads the response, on the client's loop.
  func run(with client: UpstreamClient) async throws(Failure) -> Fetched {
    let response: UpstreamResponse
    do {
      response = try await client.send(UpstreamRequest(.get, ByteString(target), fields: Self.fields), limits: timeouts)
    } catch {
      throw Failure(description: error.description)
    }
    guard response.status == .ok else {
      response.content.cancel()
      throw Failure(description: Self.sentence(of: response.status))
    }
    let json = try await content(of: response)
    do {
      return Fetched(keys: try JSONWebKeySet(json), maxAge: Self.maxAge(response.fields))
    } catch {
      throw Failure(description: error.description)
    }
  }

  private static let fields: FieldLines = [
    .accept: "application/jwk-set+json, application/json", .acceptEncoding: "identity",
    .userAgent: "musickit-token-server/\(Release.version)",
  ]

  private func content(of response: UpstreamResponse) async throws(Failure) -> [UInt8] {
    var content: [UInt8] = []
    do throws(ContentError) {
      while let part = try await response.content.read() {
        guard content.count + part.count <= JSONWebKeySet.limit else {
          response.content.cancel()
          throw .tooLarge(limit: JSONWebKeySet.limit)
        }
        content += part
      }
    } catch {
      throw Failure(description: "The server could not read the response. \(error)")
    }
    return content
  }

  /// Returns the sentence for a status. The server does not follow redirects, because only the operator chooses the
  /// source of keys.
  static func sentence(of status: HTTPResponse.Status) -> String {
    switch status.code {
    case 301, 302, 303, 307, 308: "The response has status \(status.code). Write the address that it redirects to."
    case 304:
      "The response has status 304 (Not Modified), although the request had no condition. The cause is the provider, "
        + "or a cache in front of it."
    default: "The response has status \(status.code)."
    }
  }

  /// Returns Cache-Control's `max-age` less the `Age` of the response in caches (RFC 9111 §5.1, §5.2.2.1); nil without
  /// it.
  static func maxAge(_ fields: FieldLines) -> Int? {
    let directives = fields[.cacheControl]?.utf8.split(separator: UInt8(ascii: ",")) ?? []
    for directive in directives {
      let parts = directive.split(separator: UInt8(ascii: "="), maxSplits: 1).map { part in
        ByteString(part.filter { !" \t\"".utf8.contains($0) })
      }
      guard parts.count == 2, parts[0].lowercasedASCII == "max-age" else { continue }
      // The value is bounded before the subtraction. A value that cannot be parsed counts as absent.
      guard let seconds = UInt32(parts[1].text) else { return nil }
      let age = fields[.age].flatMap { UInt32($0) } ?? 0
      return Int(seconds) - Int(age)
    }
    return nil
  }
}
