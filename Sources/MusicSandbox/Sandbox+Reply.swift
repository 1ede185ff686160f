import Bytes
import CZlib
import EventLoop
import HTTP1
import HTTPMessages
public import HTTPServer
import HTTPTypes
import Locks

/// The emulator behind a server.
extension Sandbox {
  /// Most bytes of content that a request may have.
  static let maximumContent = 65_536

  /// A router that hands every request to the emulator.
  public var router: Router {
    Router([Route(below: "/") { self.reply(to: $0) }])
  }

  /// The response to a request: at once, unless the request has content or the response is delayed or goes wrong.
  public func reply(to request: Request) -> Reply {
    let request = SandboxRequest(request)
    if ["POST", "PUT", "PATCH"].contains(request.method) {
      return .deferred { context in
        guard let content = await Self.read(context.content) else { return Response(.contentTooLarge) }
        var request = request
        request.content = content
        return await self.respond(request).response(on: context.loop)
      }
    }
    let response = respond(request)
    if response.delivery.isPlain { return .immediate(Response(response)) }
    return .deferred { context in await response.response(on: context.loop) }
  }

  /// The content, whole; nil if it is too long or breaks off.
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

  /// The router refuses the methods that are left out here.
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
  /// The response, once its delay has passed.
  fileprivate func response(on loop: IOLoop) async -> Response {
    await Pause.pass(delivery.delay, on: loop)
    var response = Response(self)
    guard delivery.pace != nil || delivery.ending != .whole || delivery.filling != nil else { return response }
    response.body = []
    // What breaks off announces a byte at least, or there would be nothing to miss.
    let length = max(delivery.filling ?? content.count, delivery.ending == .whole ? 0 : 1)
    response.stream = ResponseReader(self, length: length, loop: loop)
    response.streamLength = delivery.ending == .truncated ? nil : length
    return response
  }
}

extension Response {
  /// The response as it stands, whatever its delivery.
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

/// Responses of the catalog that were made before: they depend on nothing but the request's target and host, and making
/// one costs more than everything else about a request.
final class MadeResponses: Sendable {
  /// Most bytes of content that are kept. Beyond it all are dropped: the next request makes its own again.
  private static let limit = 16 << 20

  private let state = Locked(State())

  private struct State {
    var responses: [ByteString: SandboxResponse] = [:]
    var size = 0
  }

  /// The response to a request, made by `make` unless there is one.
  ///
  /// - Parameters:
  ///   - base: What absolute URLs in it begin with.
  ///   - isPersonal: Whether it may depend on the user, and must not be kept.
  func respond(
    to request: SandboxRequest, base: String, isPersonal: Bool, _ make: () throws(AppleError) -> SandboxResponse
  ) throws(AppleError) -> SandboxResponse {
    guard !isPersonal, request.method == "GET" || request.method == "HEAD" else { return try make() }
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

/// Waiting, in a task of a loop.
enum Pause {
  /// A task that is cancelled is noticed after so long at most, for a timer does not hear of it.
  private static let slice = Duration.milliseconds(100)

  /// Returns after so long, or soon after the task is cancelled.
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

/// gzip (RFC 1952), for responses to those who accept it.
enum Compression {
  /// Compresses the content if the request accepts gzip and the content is worth it.
  static func apply(to response: inout SandboxResponse, for request: SandboxRequest) {
    response.fields.append(SandboxField("Vary", "Accept-Encoding"))
    guard accepts(request.fields), response.content.count >= 256, let compressed = gzip(response.content) else {
      return
    }
    response.content = compressed
    response.fields.append(SandboxField("Content-Encoding", "gzip"))
  }

  /// Whether gzip is named without a weight of zero (RFC 9110 §12.5.3).
  private static func accepts(_ fields: [SandboxField]) -> Bool {
    fields.values(of: "accept-encoding").joined(separator: ",").lowercased().split(separator: ",").contains { item in
      let parts = item.split(separator: ";").map { $0.filter { $0 != " " } }
      guard parts.first == "gzip" else { return false }
      return !parts.dropFirst().contains { $0.hasPrefix("q=0") && !$0.dropFirst(3).contains { $0 != "." && $0 != "0" } }
    }
  }

  private static func gzip(_ input: [UInt8]) -> [UInt8]? {
    var stream = unsafe z_stream()
    guard unsafe czlib_deflate_init_gzip(&stream, 6) == Z_OK else { return nil }
    defer { unsafe _ = deflateEnd(&stream) }
    // What deflate may need, and the header and trailer of gzip (§2.2).
    var output = [UInt8](repeating: 0, count: Int(unsafe deflateBound(&stream, UInt(input.count))) + 32)
    var source = input
    let result = unsafe source.withUnsafeMutableBufferPointer { source in
      unsafe output.withUnsafeMutableBufferPointer { output in
        // Safe: both buffers are lent for the whole of the one call that reads and writes them.
        unsafe stream.next_in = source.baseAddress
        unsafe stream.avail_in = UInt32(clamping: source.count)
        unsafe stream.next_out = output.baseAddress
        unsafe stream.avail_out = UInt32(clamping: output.count)
        return unsafe deflate(&stream, Z_FINISH)
      }
    }
    guard result == Z_STREAM_END else { return nil }
    output.removeLast(Int(unsafe stream.avail_out))
    return output
  }
}

/// What responses say about caching. Whether Apple's say anything is not known, so either can be had.
public enum CacheFields: String, Sendable, CaseIterable {
  /// An `ETag`, which `If-None-Match` is answered with 304 by.
  case etag
  /// `Cache-Control` with `max-age`.
  case maxAge = "max-age"
  /// Both.
  case both
  /// Nothing.
  case none
  /// Each of these somewhere: storefronts and languages have both, albums and songs an `ETag`, artists, genres and
  /// playlists a `max-age`, and all else, such as searches and charts, nothing.
  case mixed

  /// Seconds that a response stays fresh for, where it says so.
  static let maximumAge = 300

  /// What holds for a path.
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
  ///
  /// - Parameter isWeak: Whether one tag stands for several encodings of the content (RFC 9110 §8.8.1).
  func mark(_ response: inout SandboxResponse, isWeak: Bool) {
    if self == .maxAge || self == .both {
      response.fields.append(SandboxField("Cache-Control", "max-age=\(Self.maximumAge)"))
    }
    guard self == .etag || self == .both else { return }
    let tag = "\"\(String(Numbers.hash(response.content), radix: 16))\""
    response.fields.append(SandboxField("ETag", isWeak ? "W/\(tag)" : tag))
  }

  /// Turns a response into a 304 if the request has it already (RFC 9110 §13.1.2).
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

  /// What is compared weakly (RFC 9110 §8.8.3.2).
  private static func opaque(_ tag: Substring) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag }
}

/// Times as `Date` has them (RFC 9110 §5.6.7).
enum IMFFixdate {
  /// A time in seconds since 1970.
  static func text(_ seconds: Int) -> String {
    var bytes: [UInt8] = []
    HTTPDate(secondsSinceEpoch: seconds).append(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// Content that comes slowly, is made up as it goes, or breaks off.
final class ResponseReader: ContentReader, @unchecked Sendable {
  // Sendable by confinement: it belongs to one loop and is read by one task, as every reader is.

  /// How much of fast content comes at once.
  private static let part = 16_384
  /// How often a part of slow content comes.
  private static let interval = Duration.milliseconds(100)

  private let content: [UInt8]
  private let pace: Int?
  /// Where reading stops, and whether that is too early.
  private let end: Int
  private let breaksOff: Bool
  private let isFilling: Bool
  private let loop: IOLoop
  private var position = 0
  private var isCancelled = false

  /// - Parameter length: What was announced, or would have been.
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
      if breaksOff { throw .broken("The response was to break off.") }
      return nil
    }
    if pace != nil, position > 0 { await Pause.pass(Self.interval, on: loop) }
    guard !isCancelled, !Task.isCancelled else { throw .cancelled }
    let count = min(end - position, pace ?? Self.part)
    defer { position += count }
    return isFilling ? filling(count) : Array(content[position..<position + count])
  }

  func cancel() { isCancelled = true }

  /// A JSON string of spaces, whatever its length: `"   "`, or `0` where there is no room for quotes.
  private func filling(_ count: Int) -> [UInt8] {
    var part = [UInt8](repeating: UInt8(ascii: " "), count: count)
    if position == 0 { part[0] = UInt8(ascii: end == 1 ? "0" : "\"") }
    if position + count == end, end > 1 { part[count - 1] = UInt8(ascii: "\"") }
    return part
  }
}
