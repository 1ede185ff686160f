import EventLoop
import HTTP1
import HTTPMessages
public import HTTPServer
import HTTPTypes

/// The emulator behind a server.
extension Sandbox {
  /// Most bytes of content that a request may have.
  static let maximumContent = 65_536

  /// A router that hands every request to the emulator.
  public var router: Router {
    Router([Route(below: "/") { self.reply(to: $0) }])
  }

  /// The answer to a request: at once, unless the request has content or the answer is delayed or goes wrong.
  public func reply(to request: Request) -> Reply {
    let request = SandboxRequest(request)
    if ["POST", "PUT", "PATCH"].contains(request.method) {
      return .later { context in
        guard let content = await Self.read(context.content) else { return Response(.contentTooLarge) }
        var request = request
        request.content = content
        return await self.answer(request).response(on: context.loop)
      }
    }
    let answer = answer(request)
    if answer.delivery.isPlain { return .now(Response(answer)) }
    return .later { context in await answer.response(on: context.loop) }
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

extension SandboxAnswer {
  /// The response, once its delay has passed.
  fileprivate func response(on loop: IOLoop) async -> Response {
    await Pause.pass(delivery.delay, on: loop)
    var response = Response(self)
    guard delivery.pace != nil || delivery.ending != .whole || delivery.filling != nil else { return response }
    response.body = []
    // What breaks off announces a byte at least, or there would be nothing to miss.
    let length = max(delivery.filling ?? content.count, delivery.ending == .whole ? 0 : 1)
    response.stream = AnswerReader(self, length: length, loop: loop)
    response.streamLength = delivery.ending == .truncated ? nil : length
    return response
  }
}

extension Response {
  /// The answer as it stands, whatever its delivery.
  fileprivate init(_ answer: SandboxAnswer) {
    var fields = HTTPFields()
    for field in answer.fields {
      guard let name = HTTPField.Name(field.name) else { continue }
      fields.append(HTTPField(name: name, value: field.value))
    }
    self.init(HTTPResponse.Status(code: answer.status), fields: fields, body: answer.content)
    closesConnection = answer.delivery.closesConnection
  }
}
