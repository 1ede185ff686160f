import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import Memory
import TestSupport
import Testing

@testable import CatalogProxy
@testable import HTTPCache

@Suite("The end of an attempt")
struct AttemptEndingTests {
  private static let song = "/v1/catalog/us/songs/1"

  /// Content whose parts have arrived, and the rest of which never does, or after the gate is open.
  private final class PausedContent: ContentReader {
    enum Rest: Sendable {
      case nothing, end, failure
      case later(Gate)
    }

    private let parts: Locked<[[UInt8]]>
    private let rest: Rest

    init(_ lengths: [Int], then rest: Rest) {
      parts = Locked(lengths.map { [UInt8](repeating: 0x20, count: $0) })
      self.rest = rest
    }

    func readAtOnce() throws(ContentError) -> AvailableContent {
      let part = parts.withLock { $0.isEmpty ? nil : $0.removeFirst() }
      if let part { return .part(part) }
      switch rest {
      case .nothing, .later: return .nothing
      case .end: return .end
      case .failure: throw .broken("It broke off.")
      }
    }

    func read() async throws(ContentError) -> [UInt8]? {
      if case .later(let gate) = rest {
        await gate.pass()
        return nil
      }
      await waitForCancellation()
      throw .cancelled
    }

    func cancel() {}
  }

  /// How the content of a response arrives.
  enum Arrival: CaseIterable, CustomTestStringConvertible {
    case whole, partly, tooLong, declaredTooLong, broken, beyondMemory, notStored

    var testDescription: String { "\(self)" }

    fileprivate func response() -> UpstreamResponse {
      let (lengths, rest, length): ([Int], PausedContent.Rest, Int?) =
        switch self {
        case .whole: ([10], .end, nil)
        case .partly, .notStored: ([10], .nothing, nil)
        case .tooLong: ([1000, 1000], .nothing, nil)
        case .declaredTooLong: ([10], .nothing, 2000)
        case .broken: ([10], .failure, nil)
        case .beyondMemory: ([900], .nothing, nil)
        }
      return UpstreamResponse(
        status: .ok, fields: [.cacheControl: "max-age=60"], content: PausedContent(lengths, then: rest),
        contentLength: length)
    }
  }

  @Test(
    "shows that Apple accepts the token as soon as a head has arrived, however the content arrives",
    arguments: Arrival.allCases)
  func head(_ arrival: Arrival) async throws {
    let ground = ProxyGround { configuration in
      configuration.cache.largestContent = 1500
      if arrival == .beyondMemory { configuration.memory = MemoryBudget(limit: 800) }
    } _: { _ in
      arrival.response()
    }
    let directives = Sample.request(arrival == .notStored ? "no-store" : "")
    let call = try ground.call(Self.song, directives: directives)
    let task = Task { await ground.respond(call) }
    try await until("the head has arrived") { ground.proxy.status.tokenAcceptedAt != nil }
    #expect(ground.upstream.requests.count == 1)
    if arrival == .beyondMemory {
      #expect(await task.value.failure?.shortage == .memory)
    } else {
      task.cancel()
      _ = await task.value
    }
  }

  @Test("charges content for memory while it waits for more, and not what comes at once")
  func memory() async throws {
    let budget = MemoryBudget.unlimited()
    let ground = ProxyGround({ $0.memory = budget }) { _ in Arrival.whole.response() }
    _ = try await ground.ask(Self.song)
    #expect(budget.used == 0)
    let gate = Gate()
    gate.isShut = true
    ground.upstream.respond { _ in
      UpstreamResponse(
        status: .ok, fields: [.cacheControl: "max-age=60"], content: PausedContent([10], then: .later(gate)),
        contentLength: nil)
    }
    let call = try ground.call("/v1/catalog/us/songs/2")
    let task = Task { await ground.respond(call) }
    try await until("it waits for more") { budget.used >= 10 }
    task.cancel()
    _ = await task.value
    // It is stored all the same.
    #expect(budget.used >= 10)
    gate.isShut = false
    try await until("it holds nothing") { budget.used == 0 }
  }

  @Test(
    "marks a response for the callers who may have the catalog when it arrives",
    arguments: [(false, true), (false, false), (true, true), (true, false)])
  func marks(isValidated: Bool, isPublic: Bool) async throws {
    let gate = Gate()
    let fields: FieldLines = [.cacheControl: "max-age=10", .eTag: "\"1\""]
    let ground = ProxyGround { request in
      await gate.pass()
      return request.fields.has("if-none-match") ? .scripted(.notModified, fields, "") : .scripted(.ok, fields)
    }
    ground.proxy.setPublic(!isPublic)
    _ = try await ground.ask(Self.song)
    if isValidated { ground.time.advance(by: .seconds(60)) }
    gate.isShut = true
    let directives = Sample.request(isValidated ? "" : "no-cache")
    let call = try ground.call(Self.song, directives: directives)
    let task = Task { await ground.respond(call) }
    try await until("it is at the upstream") { ground.upstream.requests.count == 2 }
    ground.proxy.setPublic(isPublic)
    #expect(ground.proxy.cache.statistics.entries == 0)
    gate.isShut = false
    for reply in [await task.value, try await ground.ask(Self.song)] {
      guard case .response(let response) = reply else {
        Issue.record("There is no response: \(reply)")
        return
      }
      let control = response.encoded.fields[.cacheControl] ?? response.prepared.fields[.cacheControl]
      #expect(control?.contains("public") == isPublic && control?.contains("private") == !isPublic, "\(control ?? "")")
    }
    #expect(ground.upstream.requests.count == 2 && ground.proxy.cache.statistics.entries == 1)
  }
}
