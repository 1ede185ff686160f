import EventLoop
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import MusicSandbox
import ServerSettings
import TokenServer

/// The Apple Music emulator on a port of this machine.
struct SandboxServer {
  let server: Server
  private let loop: IOLoop
  private let scheme: String

  /// Listens on its own loop, with at most `openFiles` open descriptors. Throws a sentence.
  init(_ options: SandboxOptions, port: UInt16, openFiles: Int, certificate: SandboxCertificate? = nil) throws {
    guard openFiles >= Self.leastOpenFiles, Descriptor.areAvailable(Self.leastOpenFiles) else {
      throw StartError(
        """
        The emulator needs \(Self.leastOpenFiles) more descriptors than are open, and the system does not grant so \
        many: \(DescriptorBudget.remedy).
        """)
    }
    loop = try IOLoop.start(label: "sandbox")
    var configuration = Server.Configuration(endpoint: .tcp(host: "127.0.0.1", port: port), observer: SilentObserver())
    configuration.tls = certificate?.context
    configuration.http2 = .byPreface
    configuration.limits.connections = min(configuration.limits.connections, openFiles - Self.ownFiles)
    // All callers are on this machine, and may all be one process.
    configuration.limits.connectionsPerAddress = configuration.limits.connections
    // A fault may delay a response for as long as a test needs.
    configuration.limits.work = .seconds(3600)
    // Apple's servers have room for every caller of a test.
    configuration.limits.burst = .seconds(3600)
    scheme = certificate == nil ? "http" : "https"
    server = try Server(configuration, router: Sandbox(options).router, loops: [loop])
  }

  /// The descriptors of the loop's poller and pipe, the listener and Dispatch, and those that are open briefly.
  private static let ownFiles = 10
  /// The descriptors above, and a few connections.
  static let leastOpenFiles = ownFiles + 6

  var url: String { server.addresses.first.map { "\(scheme)://\($0)" } ?? "" }

  /// Answers the requests that have arrived, and then stops.
  func stop() {
    server.drain(timeout: .seconds(1))
    loop.stopAndWait()
  }

  private struct SilentObserver: ExchangeObserver {
    func completed(_ request: Request, _ response: Response, bytes: Int) {}
    func noticed(_ notice: ServerNotice) {}
  }
}

extension Sandbox {
  static let maximumContent = 65_536
  var router: Router { Router([Route(below: "/") { self.reply(to: $0) }]) }

  /// Returns the response: at once, unless the request may have content, or a fault or delay applies to the response.
  private func reply(to request: Request) -> Reply {
    let request = SandboxRequest(request)
    if ["POST", "PUT", "PATCH"].contains(request.method) {
      let work = DeferredWork { context in
        guard let content = try? await context.content?.whole(atMost: Self.maximumContent) ?? [] else {
          return Response(.contentTooLarge)
        }
        var request = request
        request.content = content
        return await self.delayed(self.respond(request), on: context.loop)
      }
      return .deferred(work)
    }
    let response = respond(request)
    if response.isPlain, response.delay == .zero { return .immediate(Response(response)) }
    return .deferred(DeferredWork { context in await self.delayed(response, on: context.loop) })
  }

  /// How often a delayed response looks whether the faults have changed.
  private static let look = Duration.milliseconds(20)

  /// Returns the response after its delay, or as soon as a test changes the faults.
  private func delayed(_ response: SandboxResponse, on loop: IOLoop) async -> Response {
    let (end, changes) = (Deadline.now.advanced(by: response.delay), faultChanges)
    while faultChanges == changes, Deadline.now < end {
      // The server no longer wants the response of a cancelled task.
      do { try await loop.pause(for: min(Self.look, end.duration(since: .now))) } catch { break }
    }
    return response.response(on: loop)
  }
}

extension SandboxRequest {
  fileprivate init(_ request: Request) {
    var fields = request.fields
    fields[.literal("Host")] = nil
    self.init(
      // The router refuses all methods that the type does not know.
      "\(request.method)".uppercased(), String(decoding: request.path, as: UTF8.self),
      query: request.query.map { String(decoding: $0, as: UTF8.self) },
      authority: String(decoding: request.authority, as: UTF8.self), fields: fields,
      protocolName: request.isHTTP2 ? "HTTP/2" : request.head.version == .http10 ? "HTTP/1.0" : "HTTP/1.1")
  }
}

extension SandboxResponse {
  /// Whether the content is sent at full speed, to its end.
  fileprivate var isPlain: Bool { number(.slow) == nil && number(.huge) == nil && !breaksOff }
  fileprivate var breaksOff: Bool { number(.reset) != nil || number(.truncate) != nil }

  fileprivate func response(on loop: IOLoop) -> Response {
    var response = Response(self)
    guard !isPlain else { return response }
    response.body = []
    // A response that breaks off announces at least one byte, because otherwise nothing would be missing.
    let length = max(number(.huge) ?? content.count, breaksOff ? 1 : 0)
    response.stream = ResponseReader(self, length: length, loop: loop)
    response.streamLength = number(.truncate) == nil ? length : nil
    return response
  }
}

extension Response {
  fileprivate init(_ response: SandboxResponse) {
    self.init(.init(code: response.status), fields: response.fields, body: response.content)
    // GOAWAY in HTTP/2, `Connection: close` in HTTP/1.1.
    end = response.number(.goaway) == nil ? .nothing : .connection
  }
}

/// A reader of content that is slow, generated during the transfer, or breaks off.
final class ResponseReader: ContentReader, @unchecked Sendable {
  // Sendable by confinement: a reader belongs to one loop, and one task reads it.

  /// The maximum size of a part of fast content, in bytes.
  private static let part = 16_384
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

  /// Creates a reader of content with the announced length, or the full length if none is announced.
  init(_ response: SandboxResponse, length: Int, loop: IOLoop) {
    content = response.content
    pace = response.number(.slow)
    isFilling = response.number(.huge) != nil
    breaksOff = response.breaksOff
    end = breaksOff ? min(length, isFilling ? length : content.count) / 2 : length
    self.loop = loop
  }

  func read() async throws(ContentError) -> [UInt8]? {
    guard !isCancelled else { throw .cancelled }
    guard position < end else {
      if breaksOff { throw .broken("The fault ends the response early.") }
      return nil
    }
    if pace != nil, position > 0 { try? await loop.pause(for: Self.interval) }
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
