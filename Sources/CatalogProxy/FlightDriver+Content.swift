import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Memory
import UpstreamAdmission

/// Phase 9: the content of a response is stored, or passes on while it arrives.
extension FlightDriver {
  /// Stores the response if all of its content has arrived. Otherwise waits for the content.
  func store() -> Flight.Event? {
    guard let response, let attempt else { return nil }
    guard response.status != .notModified else { return freshen(by: response, attempt) }
    let limit = gateway.configuration.cache.largestContent
    guard response.contentLength ?? 0 <= limit else { return .stored(stream(response)) }
    var content = PartialContent(
      response.content, length: response.contentLength, upTo: limit, gateway.configuration.memory)
    do throws(ContentError) {
      if let reading = try content.readAtOnce() { return .stored(outcome(of: reading, content)) }
    } catch { return broken(error) }
    gateway.noteHead(of: attempt)
    return wait(isForStored: true) { [content] in
      var content = content
      do throws(ContentError) {
        let reading = try await content.read()
        return .stored(self.outcome(of: reading, content))
      } catch { return self.broken(error) }
    }
  }

  private func outcome(of reading: PartialContent.Reading, _ content: PartialContent) -> Outcome {
    guard let response, let attempt else { return .cancelled }
    switch reading {
    case .whole: return store(response, content, attempt)
    case .tooLong: return stream(content.response(response))
    case .refused:
      gateway.noteHead(of: attempt)
      response.content.cancel()
      self.attempt.take()?.release(.inconclusive)
      return .failure(.overMemory, mayBeReplaced: true)
    }
  }

  private func broken(_ error: ContentError) -> Flight.Event {
    if let attempt = attempt.take() {
      gateway.noteHead(of: attempt)
      attempt.release(.inconclusive)
    }
    guard error != .cancelled else { return .interrupted(byCaller: false) }
    return .failed(incomplete(error))
  }

  private func incomplete(_ error: ContentError) -> UpstreamFailure {
    let error = UpstreamError(
      error == .timedOut ? .responseTimeout : .responseIncomplete, .answered, "A response ended too early. \(error)")
    gateway.observer.noticed(.exchangeFailed(error))
    return UpstreamFailure(error, nextHop: nextHop, isChange: flight.isChange)
  }

  private func store(_ response: UpstreamResponse, _ content: PartialContent, _ attempt: CatalogAttempt) -> Outcome {
    let (key, settings) = (flight.call.key, gateway.cacheSettings)
    do throws(ContentCodingError) {
      let whole = try StoredResponse(received(response, attempt), body: content.bytes, settings: settings)
      let isStored = gateway.cache.store(whole, for: key, of: CacheOwner(flight.subject))
      // The settings changed meanwhile, so the stored mark may be wrong. The waiting callers still get the response.
      if settings != gateway.cacheSettings { gateway.cache.remove(key) }
      attempt.isShareable = whole.isShareable
      return .response(whole, isStored: isStored, forwardStatus: nil)
    } catch .tooLarge where flight.call.coding == .gzip {
      return .stream(content.response(response))
    } catch {
      let sentence = "The content is not valid gzip, as its Content-Encoding says, or its decoded size is too large."
      return .failure(incomplete(.broken(sentence)), mayBeReplaced: true)
    }
  }

  /// Renews a stored response by a 304. A 304 may describe another version. Without validators, Apple sends that whole.
  private func freshen(by response: UpstreamResponse, _ attempt: CatalogAttempt) -> Flight.Event {
    response.content.cancel()
    guard let stored = flight.stored else {
      return .stored(.failure(.status(.notModified, nextHop: nextHop, isChange: false), mayBeReplaced: true))
    }
    let (key, settings) = (flight.call.key, gateway.cacheSettings)
    let renewed = gateway.cache.freshen(
      stored, for: key, by: received(response, attempt), settings: settings, of: CacheOwner(flight.subject))
    guard let renewed else {
      self.attempt = nil
      gateway.settle(attempt, of: miss.call)
      return .mismatched
    }
    if settings != gateway.cacheSettings { gateway.cache.remove(key) }
    attempt.isShareable = renewed.response.isShareable
    return .stored(.response(renewed.response, isStored: renewed.isStored, forwardStatus: 304))
  }

  /// Returns a response for the cache. Its age counts from the request of this attempt (RFC 9111 §4.2.3), not from the wait
  /// for the turn.
  private func received(_ response: UpstreamResponse, _ attempt: CatalogAttempt) -> ReceivedResponse {
    var fields = gateway.policy.responseFields(response.fields, version: response.version, isForCache: true)
    // With a music user token the response may be another one, which the caches of browsers cannot know.
    if flight.call.target.mayDependOnUser { fields.append("Vary", Self.userTokens.span) }
    return ReceivedResponse(
      status: response.status, fields: fields, date: date, sent: flight.call.fields, requestedAt: attempt.start,
      receivedAt: receivedAt)
  }

  private static let userTokens = Array("Music-User-Token, Media-User-Token".utf8)

  func pass() -> Outcome { response.map { stream($0) } ?? .cancelled }

  /// Lets the turn end when Apple has sent all of the content. More than the server keeps for a caller that reads slowly
  /// holds the turn until the deadline at most.
  private func stream(_ response: UpstreamResponse) -> Outcome {
    guard let attempt = attempt.take() else { return .stream(response) }
    gateway.noteHead(of: attempt)
    response.content.arriveAhead(upTo: CatalogGateway.contentAhead, chargedTo: miss.call.holder) { result in
      if case .success = result { attempt.release(.answered) } else { attempt.release(.inconclusive) }
    }
    attempt.end(after: miss.end - gateway.clock.elapsed, by: miss.route.upstream)
    return .stream(response)
  }
}

extension CatalogGateway {
  /// The most content of a request that arrives before its turn, and of a response that waits for its caller after its
  /// turn, in bytes: 1 MiB. Apple's requests have a few kilobytes, and nearly all responses fewer than this.
  static var contentAhead: Int { 1 << 20 }
}

/// Content that is read until it is complete or too long to keep. Confined to the event loop of its reader.
struct PartialContent: @unchecked Sendable {
  // Sendable by confinement: one task at a time uses it.

  enum Reading {
    case whole
    /// The content is longer than the limit. The bytes read so far are kept, and the rest still has to be read.
    case tooLong
    case refused
  }

  private let reader: any ContentReader
  private let memory: MemoryBudget
  private let holder: MemoryBudget.Holder?
  private let purpose: MemoryBudget.Purpose
  /// The charge of the bytes. Content that comes at once is not kept across a wait, and so is not charged.
  private var hold: MemoryHold?
  private let length: Int?
  private let limit: Int
  /// The bytes read so far, in one array. Separate parts would leave as much free memory again in the heap between used
  /// blocks, where no budget counts it.
  private(set) var bytes: [UInt8] = []
  private var isWhole = false

  /// Creates content that is read to its end, or until it has more than `limit` bytes. `memory` is charged for bytes that
  /// are kept across a wait. `length`: in bytes, if the upstream has stated it; a caller's statement must not take memory.
  /// `holder`: the address that the memory is charged to; nil for the server itself.
  init(
    _ reader: any ContentReader, length: Int?, upTo limit: Int, _ memory: MemoryBudget,
    chargedTo holder: MemoryBudget.Holder? = nil, for purpose: MemoryBudget.Purpose = .upstream
  ) {
    (self.reader, self.length, self.limit, self.memory) = (reader, length, limit, memory)
    (self.holder, self.purpose) = (holder, purpose)
  }

  mutating func read() async throws(ContentError) -> Reading {
    while true {
      if let reading = take(try await reader.read()) { return reading }
      guard charge() else { return .refused }
    }
  }

  mutating func readAtOnce() throws(ContentError) -> Reading? {
    while true {
      switch try reader.readAtOnce() {
      case .nothing: return charge() ? nil : .refused
      case .part(let part): if let reading = take(part) { return reading }
      case .end: return take(nil)
      }
    }
  }

  private mutating func charge() -> Bool {
    if hold == nil { hold = MemoryHold(memory, for: holder) }
    return hold?.resize(to: bytes.capacity, for: purpose) ?? false
  }

  /// Adds the next part, nil for the end. Returns nil to read on.
  private mutating func take(_ part: [UInt8]?) -> Reading? {
    guard let part else {
      isWhole = true
      return .whole
    }
    if bytes.isEmpty {
      // Short content arrives in one part, and is not copied.
      bytes = part
      if let length, length > part.count { bytes.reserveCapacity(min(length, limit)) }
    } else {
      bytes.append(contentsOf: part)
    }
    guard bytes.count > limit else { return nil }
    return charge() ? .tooLong : .refused
  }

  /// Returns `response` with the bytes already read in front of the rest.
  func response(_ response: UpstreamResponse) -> UpstreamResponse { response.read(by: readAgain()) }

  /// Returns the bytes already read, and the rest after them. They wait for their reader, so they are charged.
  func readAgain() -> CollectedContent {
    let hold = hold ?? MemoryHold(memory, for: holder)
    hold.force(to: bytes.capacity)
    return CollectedContent(bytes, hold, then: isWhole ? nil : reader)
  }
}

/// Content of which a part was read before: that part again, and then the rest. It records whether it was read, because it
/// cannot be read twice, and whether the rest broke off.
final class CollectedContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement: only one task at a time uses it, on the loop of `rest`.
  private var bytes: [UInt8]
  private var sent = 0
  private let hold: MemoryHold
  private let rest: (any ContentReader)?
  private(set) var isTouched = false
  private(set) var isBroken = false

  private static let partSize = 65_536

  fileprivate init(_ bytes: [UInt8], _ hold: MemoryHold, then rest: (any ContentReader)?) {
    (self.bytes, self.hold, self.rest) = (bytes, hold, rest)
  }

  func read() async throws(ContentError) -> [UInt8]? {
    isTouched = true
    guard sent < bytes.count else {
      do throws(ContentError) { return try await rest?.read() } catch {
        isBroken = true
        throw error
      }
    }
    let end = min(sent + Self.partSize, bytes.count)
    let part = Array(bytes[sent..<end])
    sent = end
    if sent == bytes.count { forget() }
    return part
  }

  func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
  ) {
    hold.move(to: holder)
    guard let rest else { return ended(.success(())) }
    rest.arriveAhead(upTo: limit, chargedTo: holder, then: ended)
  }

  func cancel() {
    forget()
    rest?.cancel()
  }

  private func forget() {
    (bytes, sent) = ([], 0)
    hold.force(to: 0)
  }
}
