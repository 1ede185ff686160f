#if DEBUG
  import Access
  import Bytes
  import DeveloperToken
  import HTTPMessages
  import EventLoop
  import HTTP1
  import HTTPTypes
  import MusicSandbox
  import Tracing

  @testable import HTTPServer
  @testable import TokenServer

  extension Parser {
    /// Whole requests, as access control and CORS see them.
    static var access: [Parser] {
      let lent = makeRequest()
      return ["Origin", "Authorization: Bearer", "X-API-Key", "X-Request-ID"].map { name in
        Parser(
          "access-\(name.lowercased().replacing(": ", with: "-"))",
          "GET /healthz HTTP/1.1\r\nHost: a\r\n\(name)\(name.contains(":") ? " " : ": ")", "\r\n\r\n",
          { judge($0, lent) })
      }
        + [
          Parser("accept", { _ = TokenForm(accept: $0[...]) }),
          Parser("request-id", { _ = RequestID(String(decoding: $0, as: UTF8.self)) }),
          Parser("traceparent", { _ = SpanContext(traceparent: $0.span) }),
          Parser(
            "tracestate",
            { bytes in
              var reader = TraceState.Reader()
              reader.add(bytes.span)
              _ = reader.state
            }),
          Parser("max-age", { _ = KeySetFetch.maxAge([.cacheControl: String(decoding: $0, as: UTF8.self)]) }),
        ]
    }

    private static func makeRequest() -> Request? {
      guard let loop = try? IOLoop.start(label: "cost") else { return nil }
      var ids = TraceIDGenerator()
      return Request(limits: HTTP1Limits(), own: ids.next(), loop: loop)
    }

    private static let crossOrigin = CrossOrigin(policy: policy)

    private static func judge(_ bytes: [UInt8], _ request: Request?) {
      guard let request else { return }
      request.reset()
      guard (try? request.parser.parse(bytes.span)) != nil else { return }
      request.keep(bytes.span)
      let presented = PresentedCredentials(request, to: policy, certificate: nil)
      _ = policy.identify(presented, now: 1_795_000_000) { _ in nil }
      var response = Response(.ok)
      crossOrigin.finish(&response, request)
    }

    /// The emulator, whose state stays as it is.
    static var emulator: [Parser] {
      [
        Parser("emulator-query", { ask("/v1/catalog/us/search", query: $0) }),
        Parser("emulator-ids", "ids=", "", { ask("/v1/catalog/us/songs", query: $0) }),
        Parser("emulator-include", "ids=1&include=", "", { ask("/v1/catalog/us/songs", query: $0) }),
        Parser("emulator-path", { ask("/v1/catalog/us/\(String(decoding: $0, as: UTF8.self))", query: nil) }),
        Parser("emulator-token", { ask("/v1/test", query: nil, token: $0) }),
        Parser("emulator-user", { ask("/v1/me/storefront", query: nil, user: $0) }),
      ]
    }

    private static let key = try? SigningKey.generate(keyID: KeyID("ABC1234567"))
    private static let team = try? TeamID("DEF1234567")
    private static let sandbox = Sandbox(
      SandboxOptions(
        keys: [key].compactMap { key in
          guard let key, let team else { return nil }
          return TrustedKey(team: team, key: key)
        }), clock: SandboxClock(seconds: { 1_795_000_100 }, now: { .now }))
    private static let developerToken: [UInt8] = {
      guard let key, let team, let minter = try? TokenMinter(key: key, team: team, policy: TokenPolicy()),
        let token = try? minter.token(now: 1_795_000_000)
      else { preconditionFailure("A token for the emulator cannot be made.") }
      return token.compact
    }()

    private static func ask(_ path: String, query: [UInt8]?, token: [UInt8]? = nil, user: [UInt8] = []) {
      _ = sandbox.respond(
        SandboxRequest(
          "GET", path, query: query.map { String(decoding: $0, as: UTF8.self) },
          fields: [
            .authorization: "Bearer \(String(decoding: token ?? developerToken, as: UTF8.self))",
            .literal("Music-User-Token"): String(decoding: user, as: UTF8.self),
          ]))
    }
  }
#endif
