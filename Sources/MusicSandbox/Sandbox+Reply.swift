import Bytes
import EventLoop
import HTTP1
import HTTPMessages
public import HTTPServer
import HTTPTypes
import Locks
import MusicCatalog

/// The connection of the emulator to a server.
extension Sandbox {
  /// The maximum content of a request in bytes.
  static let maximumContent = 65_536

  /// A router that passes every request to the emulator.
  public var router: Router {
    Router([Route(below: "/") { self.reply(to: $0) }])
  }

  /// Returns the response: at once, unless the request may have content, or a fault or delay applies to the response.
  public func reply(to request: Request) -> Reply {
    let request = SandboxRequest(request)
    if ["POST", "PUT", "PATCH"].contains(request.method) {
      let work = DeferredWork { context in
        guard let content = await Self.read(context.content) else { return Response(.contentTooLarge) }
        var request = request
        request.content = content
        return await self.respond(request).response(on: context.loop)
      }
      return .deferred(work)
    }
    let response = respond(request)
    if response.delivery.isPlain { return .immediate(Response(response)) }
    return .deferred(DeferredWork { context in await response.response(on: context.loop) })
  }

  /// Reads the whole content. Returns nil if it is too long or breaks off.
  private static func read(_ reader: any ContentReader) async -> [UInt8]? {
    var content: [UInt8] = []
    do {
      while let part = try await reader.read() {
        guard content.count + part.count <= maximumContent else { return nil }
        content += part
      }
    } catch {
      return nil
    }
    return content
  }
}

extension SandboxRequest {
  /// Converts a server's request, without its content.
  fileprivate init(_ request: Request) {
    let fields = request.fields.map { SandboxField($0.name.rawName, $0.value) }
    self.init(
      Self.name(of: request), String(decoding: request.path, as: UTF8.self),
      query: request.query.map { String(decoding: $0, as: UTF8.self) },
      authority: String(decoding: request.authority, as: UTF8.self),
      fields: fields.filter { $0.name.lowercased() != "host" },
      protocolName: request.isHTTP2 ? "HTTP/2" : request.head.version == .http10 ? "HTTP/1.0" : "HTTP/1.1")
  }

  /// Returns the method's name. The router refuses all methods that have no name here.
  private static func name(of request: Request) -> String {
    switch request.method {
    case .get: "GET"
    case .head: "HEAD"
    case .post: "POST"
    case .put: "PUT"
    case .patch: "PATCH"
    case .delete: "DELETE"
    case .options: "OPTIONS"
    case .connect, .trace, .other: "OTHER"
    }
  }
}

extension SandboxResponse {
  /// Returns the response after its delay.
  fileprivate func response(on loop: IOLoop) async -> Response {
    await Pause.pass(delivery.delay, on: loop)
    var response = Response(self)
    guard delivery.pace != nil || delivery.ending != .whole || delivery.filling != nil else { return response }
    response.body = []
    // A response that breaks off announces at least one byte, because otherwise nothing would be missing.
    let length = max(delivery.filling ?? content.count, delivery.ending == .whole ? 0 : 1)
    response.stream = ResponseReader(self, length: length, loop: loop)
    response.streamLength = delivery.ending == .truncated ? nil : length
    return response
  }
}

extension Response {
  /// Converts the response without its delivery.
  fileprivate init(_ response: SandboxResponse) {
    var fields = HTTPFields()
    for field in response.fields {
      guard let name = HTTPField.Name(field.name) else { continue }
      fields.append(HTTPField(name: name, value: field.value))
    }
    self.init(HTTPResponse.Status(code: response.status), fields: fields, body: response.content)
    closesConnection = response.delivery.closesConnection
  }
}

/// A cache of catalog responses. They depend only on the target and the host of the request, and creating one costs
/// more than the rest of the request.
final class MadeResponses: Sendable {
  /// The maximum size of all cached content in bytes. When it is exceeded, the cache drops all responses.
  private static let limit = 16 << 20

  private let state = Locked(State())

  private struct State {
    var responses: [ByteString: SandboxResponse] = [:]
    var size = 0
  }

  /// Returns the cached response to a request, or calls `make` and caches its result.
  ///
  /// - Parameters:
  ///   - base: The beginning of absolute URLs in the response.
  ///   - isShared: Whether the response depends only on the request; otherwise it is not cached.
  func respond(
    to request: SandboxRequest, base: String, isShared: Bool, _ make: () throws(AppleError) -> SandboxResponse
  ) throws(AppleError) -> SandboxResponse {
    guard isShared, request.method == "GET" || request.method == "HEAD" else { return try make() }
    let key = ByteString("\(request.target) \(base)")
    if let known = state.withLock({ $0.responses[key] }) { return known }
    let response = try make()
    let cost = key.count + response.content.count
    state.withLock { state in
      if state.size + cost > Self.limit { state = State() }
      if state.responses.updateValue(response, forKey: key) == nil { state.size += cost }
    }
    return response
  }
}

/// Pauses of a task on an event loop.
enum Pause {
  /// The maximum delay before a pause notices that its task is cancelled, because the timer does not.
  private static let slice = Duration.milliseconds(100)

  /// Returns after `duration`, or soon after the task is cancelled.
  static func pass(_ duration: Duration, on loop: IOLoop) async {
    guard duration > .zero else { return }
    let timer = loop.openTimer()
    defer { timer.close() }
    let end = Deadline.now.advanced(by: duration)
    while Deadline.now < end, !Task.isCancelled {
      _ = await timer.pause(until: min(end, Deadline.now.advanced(by: slice)))
    }
  }
}

/// The caching fields of responses. Apple's behaviour is unknown, so a test can select any.
public enum CacheFields: String, Sendable, CaseIterable {
  /// An `ETag`; the emulator answers a matching `If-None-Match` with 304.
  case etag
  /// `Cache-Control` with `max-age`.
  case maxAge = "max-age"
  /// Both fields.
  case both
  /// No caching fields.
  case none
  /// A mixture: storefronts and languages have both fields, albums and songs an `ETag`, artists, genres and playlists a
  /// `max-age`, and all other responses, such as searches and charts, none.
  case mixed

  /// The `max-age` of a response in seconds.
  static let maximumAge = 300

  /// Returns the fields for a path, which resolves `mixed`.
  func resolved(_ segments: ArraySlice<String>) -> CacheFields {
    guard self == .mixed else { return self }
    switch segments.first {
    case "storefronts", "language": return .both
    case "catalog": break
    default: return .none
    }
    switch segments.dropFirst(2).first {
    case "albums", "songs": return .etag
    case "artists", "genres", "playlists": return .maxAge
    default: return .none
    }
  }

  /// Adds the fields.
  func mark(_ response: inout SandboxResponse) {
    if self == .maxAge || self == .both {
      response.fields.append(SandboxField("Cache-Control", "max-age=\(Self.maximumAge)"))
    }
    guard self == .etag || self == .both else { return }
    response.fields.append(SandboxField("ETag", "\"\(String(Numbers.hash(response.content), radix: 16))\""))
  }

  /// Turns a response into a 304 if the request names its tag (RFC 9110 §13.1.2).
  static func leaveOut(_ response: inout SandboxResponse, knownTo request: SandboxRequest) {
    guard let tag = response.fields.single("etag") else { return }
    let known = request.fields.values(of: "if-none-match").joined(separator: ",").split(separator: ",")
    let isKnown = known.contains { value in
      let value = value.drop { $0 == " " }.prefix { $0 != " " }
      return value == "*" || opaque(value) == opaque(tag[...])
    }
    guard isKnown else { return }
    response.status = 304
    response.content = []
    response.fields.removeAll { $0.name == "Content-Type" }
  }

  /// Returns the part of a tag that a weak comparison uses (RFC 9110 §8.8.3.2).
  private static func opaque(_ tag: Substring) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag }
}

/// Times in the format of `Date` (RFC 9110 §5.6.7).
enum IMFFixdate {
  /// Formats a time in seconds since 1970.
  static func text(_ seconds: Int) -> String {
    var bytes: [UInt8] = []
    HTTPDate(secondsSinceEpoch: seconds).append(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// A reader of content that is slow, generated during the transfer, or breaks off.
final class ResponseReader: ContentReader, @unchecked Sendable {
  // Sendable by confinement: a reader belongs to one loop, and one task reads it.

  /// The maximum size of a part of fast content, in bytes.
  private static let part = 16_384
  /// The interval between parts of slow content.
  private static let interval = Duration.milliseconds(100)

  private let content: [UInt8]
  private let pace: Int?
  /// The position where reading stops, and whether that is before the announced end.
  private let end: Int
  private let breaksOff: Bool
  private let isFilling: Bool
  private let loop: IOLoop
  private var position = 0
  private var isCancelled = false

  /// Creates a reader.
  ///
  /// - Parameter length: The announced length, or the full length if none is announced.
  init(_ response: SandboxResponse, length: Int, loop: IOLoop) {
    content = response.content
    pace = response.delivery.pace
    isFilling = response.delivery.filling != nil
    breaksOff = response.delivery.ending != .whole
    end = breaksOff ? min(length, isFilling ? length : content.count) / 2 : length
    self.loop = loop
  }

  func read() async throws(ContentError) -> [UInt8]? {
    guard !isCancelled else { throw .cancelled }
    guard position < end else {
      if breaksOff { throw .broken("The fault ends the response early.") }
      return nil
    }
    if pace != nil, position > 0 { await Pause.pass(Self.interval, on: loop) }
    guard !isCancelled, !Task.isCancelled else { throw .cancelled }
    let count = min(end - position, pace ?? Self.part)
    defer { position += count }
    return isFilling ? filling(count) : Array(content[position..<position + count])
  }

  func cancel() { isCancelled = true }

  /// Returns a part of a JSON string of spaces: `"   "`, or `0` if the length is 1.
  private func filling(_ count: Int) -> [UInt8] {
    var part = [UInt8](repeating: UInt8(ascii: " "), count: count)
    if position == 0 { part[0] = UInt8(ascii: end == 1 ? "0" : "\"") }
    if position + count == end, end > 1 { part[count - 1] = UInt8(ascii: "\"") }
    return part
  }
}
