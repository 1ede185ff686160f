import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing
import Tracing

@testable import CatalogProxy
@testable import HTTPCache
@testable import UpstreamAdmission

/// A proxy between callers that a test creates and an upstream that the test scripts, with clocks that the test
/// moves.
final class ProxyGround: CatalogObserver, TokenSource, @unchecked Sendable {
  // Sendable: `proxy` is set once, before the first request.
  let time = ManualTime()
  let upstream: ScriptedUpstream
  private(set) var proxy: CatalogGateway!
  private let heard = Locked<[CatalogNotice]>([])
  private let minted = Locked(0)
  /// Whether the signer goes on, or keeps its caller waiting.
  let signs = Locked(true)

  init(
    _ configure: (inout CatalogGateway.Configuration) -> Void = { _ in }, _ script: @escaping ScriptedUpstream.Script
  ) {
    upstream = ScriptedUpstream(time, script)
    var configuration = CatalogGateway.Configuration(upstream: "http://localhost", nextHop: "localhost")
    configure(&configuration)
    proxy = CatalogGateway(configuration, observer: self, clock: time.clock)
    proxy.use(self)
  }

  var route: UpstreamRoute { UpstreamRoute(upstream, executor: globalConcurrentExecutor) }

  // MARK: Notices of the proxy

  var notices: [CatalogNotice] { heard.withLock { $0 } }

  func noticed(_ notice: CatalogNotice) {
    if case .responded = notice { return }
    heard.withLock { $0.append(notice) }
  }

  // MARK: Tokens, whose text is the number of the token and the second in which it was minted

  /// How often a token was to be minted.
  var mints: Int { minted.withLock { $0 } }

  func mint(now: Int) throws -> ProxyToken {
    let number = minted.withLock { minted in
      minted += 1
      return minted
    }
    wait(for: "the signer goes on") { signs.withLock { $0 } }
    return ProxyToken(text: "\(number).\(now)", refreshAt: now + 1800, expiresAt: now + 3600)
  }

  // MARK: Callers

  /// A call, with a music user token if `user` is given.
  func call(
    _ target: String, user: String? = nil,
    directives: RequestDirectives = RequestDirectives(), method: HTTPRequest.Method = .get, span: SpanContext? = nil,
    holder: UInt128? = nil, coding: ContentCoding = .identity
  ) throws -> CatalogCall {
    let target = try CatalogTarget(target, hasUserToken: user != nil)
    let lines: KeyValuePairs<String, String> = user.map { ["Music-User-Token": $0] } ?? [:]
    return CatalogCall(
      method, target, directives: directives, preconditions: Preconditions(), coding: coding,
      fields: try proxy.policy.requestFields(for: target, from: CallerFields(lines)), span: span,
      holder: holder)
  }

  /// The reply to a client's call, after its content is read to the end.
  func respond(_ call: CatalogCall, to client: String = "client") async -> CatalogReply {
    let reply = await proxy.respond(call, to: client, by: route)
    guard case .response(let response) = reply, let stream = response.stream else { return reply }
    while (try? await stream.read()) ?? nil != nil {}
    return reply
  }

  /// The reply to a new call.
  func ask(
    _ target: String, by client: String = "client", user: String? = nil,
    directives: RequestDirectives = RequestDirectives()
  ) async throws -> CatalogReply {
    await respond(try call(target, user: user, directives: directives), to: client)
  }
}

extension QuotaCaller {
  /// The only caller of a client.
  static func only(_ client: String) -> QuotaCaller {
    QuotaCaller(client: HashedText(client), share: usualShare, identity: ByteString(client))
  }
}

extension CatalogGateway {
  /// The reply to a client's call. Cancelling the task cancels the work.
  func respond(_ call: CatalogCall, to client: String = "client", by route: UpstreamRoute) async -> CatalogReply {
    let reply = OneShot<CatalogReply>()
    let work = start(call, for: .only(client), by: route) { reply.resume($0) }
    return await withTaskCancellationHandler {
      await reply.get()
    } onCancel: {
      work?.cancel()
    }
  }
}

extension UpstreamRequest {
  /// The second in which the request's developer token was minted.
  var tokenTime: Int { credential[.authorization]?.split(separator: ".").last.flatMap { Int($0) } ?? 0 }
}

extension CatalogReply {
  /// The status of the reply.
  var status: Int? {
    switch self {
    case .response(let response): response.status.code
    case .failure(let error): error.status.code
    case .cancelled: nil
    }
  }

  var failure: ErrorResponse? {
    if case .failure(let error) = self { error } else { nil }
  }

  var cacheStatus: String? {
    switch self {
    case .response(let response): response.encoded.fields[.cacheStatus] ?? response.fields[.cacheStatus]
    case .failure(let error): error.fields[.cacheStatus]
    case .cancelled: nil
    }
  }
}
