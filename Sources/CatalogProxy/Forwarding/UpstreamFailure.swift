import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import JSON
import Memory
import UpstreamAdmission

/// A failure to get a response from Apple. Only this type turns causes into responses to callers.
struct UpstreamFailure: Error, Sendable, Equatable {
  /// The response to the caller, except for what depends on its request: what happened and what to do, without details of
  /// this server's network. Its shortage is nil if the failure is Apple's.
  var error: ErrorResponse
  let proxyStatus: ProxyStatus

  init(
    _ code: ErrorCode, _ detail: String, retryAfter: Int? = nil, _ proxyStatus: ProxyStatus, shortage: Shortage? = nil
  ) {
    self.proxyStatus = proxyStatus
    error = ErrorResponse(
      code, detail,
      fields: [
        .proxyStatus: proxyStatus.fieldValue, .contentSecurityPolicy: "default-src 'none'; frame-ancestors 'none'",
      ], retryAfter: retryAfter, shortage: shortage)
  }

  func response(_ status: CacheStatus) -> ErrorResponse {
    var response = error
    response.fields[.cacheStatus] = status.fieldValue
    return response
  }

  func saying(_ words: ReplacedResponse?) -> UpstreamFailure {
    var failure = self
    failure.error.replaced = words
    return failure
  }

  /// Creates the failure of an exchange. A caller must not send a change, whose method is not safe, again unseen.
  init(_ error: UpstreamError, nextHop: String, isChange: Bool) {
    let advice = Self.advice(mayHaveEffect: isChange && error.progress != .unprocessed)
    // No error type (RFC 9209 §2.3) is that of a cancelled request.
    let cause = error.cause == .cancelled ? .proxyInternalError : error.cause
    let status = ProxyStatus(error: cause.rawValue, nextHop: nextHop)
    switch error.cause {
    case .dnsTimeout, .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .responseTimeout:
      self.init(.upstreamTimeout, "\(nextHop) did not respond in time. \(advice)", status)
    case .connectionLimitReached:
      self.init(
        .overloaded, "Too many requests to \(nextHop) are in flight. Send the request again in 1 s.", retryAfter: 1,
        status, shortage: .upstreamConnections)
    case .dnsError, .destinationUnavailable, .destinationIPUnroutable, .connectionRefused:
      self.init(.upstreamError, "The server cannot reach \(nextHop). \(advice)", status)
    case .tlsProtocolError, .tlsCertificateError, .tlsAlertReceived:
      self.init(
        .upstreamError, "The server has no secure connection to \(nextHop). The server's log has the reason.", status)
    case .responseHeaderSectionSize:
      self.init(.upstreamError, "The header section of \(nextHop)'s response is too large. \(advice)", status)
    case .connectionTerminated, .responseIncomplete:
      self.init(.upstreamError, "\(nextHop) sent no response, or an incomplete one. \(advice)", status)
    case .protocolError:
      self.init(.upstreamError, "\(nextHop) sent a malformed response, or an HTTP/2 error. \(advice)", status)
    case .proxyInternalError, .cancelled:
      self.init(.upstreamError, "The server cancelled the request to \(nextHop). \(advice)", status)
    }
  }

  static func circuitOpen(_ refusal: UpstreamCircuit.Refusal, nextHop: String) -> UpstreamFailure {
    let what = refusal.isOfResource ? "This resource of \(nextHop)" : nextHop
    return UpstreamFailure(
      .upstreamError,
      "\(what) has failed repeatedly, so the server pauses requests. Send the request again after Retry-After.",
      retryAfter: refusal.retryAfter.wholeSeconds, ProxyStatus(error: "destination_unavailable", nextHop: nextHop),
      shortage: .circuit)
  }

  static func overloaded(retryAfter: Duration) -> UpstreamFailure {
    UpstreamFailure(
      .overloaded, "The request would wait too long for its turn at Apple. Send it again after Retry-After.",
      retryAfter: retryAfter.wholeSeconds, ProxyStatus(error: "connection_limit_reached"), shortage: .queue)
  }

  static let overMemory = UpstreamFailure(
    .overloaded, "The server has reached its memory limit. Send the request again in 1 s.",
    retryAfter: 1, ProxyStatus(error: "proxy_internal_error"), shortage: .memory)

  /// The upstream responded with 429, also to the retries.
  static func rateLimited(retryAfter: Duration, nextHop: String) -> UpstreamFailure {
    UpstreamFailure(
      .upstreamRateLimited, "\(nextHop) limits the requests of the team. Send the request again after Retry-After.",
      retryAfter: retryAfter.wholeSeconds, ProxyStatus(receivedStatus: 429, nextHop: nextHop))
  }

  static func tokenRejected(_ rejection: TokenRejection, nextHop: String) -> UpstreamFailure {
    UpstreamFailure(.developerTokenRejected, rejection.description, ProxyStatus(receivedStatus: 401, nextHop: nextHop))
  }

  static func waitedTooLong(nextHop: String) -> UpstreamFailure {
    UpstreamFailure(
      .upstreamTimeout, "The request waited too long in the queue for \(nextHop). \(advice(mayHaveEffect: false))",
      retryAfter: 1, ProxyStatus(error: "connection_limit_reached", nextHop: nextHop), shortage: .queueTime)
  }

  static let noToken = UpstreamFailure(
    .noSigningKey,
    "The server cannot make a developer token at present. Send the request again in 5 s. Its log has the reason.",
    retryAfter: 5, ProxyStatus(error: "proxy_internal_error"), shortage: .developerToken)

  /// The caller forbids upstream requests, and the cache has no response (RFC 9111 §5.2.1.7).
  static let onlyIfCached = UpstreamFailure(
    .upstreamTimeout, "The cache has no response to this request, and its Cache-Control says only-if-cached.",
    ProxyStatus())

  /// The upstream responded with 5xx, or with another status that is no response to this request.
  static func status(
    _ status: HTTPResponse.Status, retryAfter: Duration? = nil, nextHop: String, isChange: Bool
  ) -> UpstreamFailure {
    UpstreamFailure(
      .upstreamError, "\(nextHop) responded with status \(status.code). \(advice(mayHaveEffect: isChange))",
      retryAfter: retryAfter?.wholeSeconds, ProxyStatus(receivedStatus: status.code, nextHop: nextHop))
  }

  /// The upstream responded with content that this server does not pass on, because a browser could run it. A 403 to a
  /// request with a music user token is about the user, whatever its content.
  static func content(
    of response: UpstreamResponse, isUsers: Bool, nextHop: String, isChange: Bool
  ) -> UpstreamFailure {
    let status = response.status
    let type = response.typeName.map { "of type \($0)" } ?? "without a valid type"
    var failure = UpstreamFailure(
      .upstreamError,
      "\(nextHop) responded with status \(status.code) and content \(type), which Apple Music does not send. "
        + advice(mayHaveEffect: isChange),
      ProxyStatus(receivedStatus: status.code, nextHop: nextHop))
    if isUsers, status == .forbidden {
      failure.error.status = status
      failure.error.detail = "\(nextHop) responded with status 403, which is about the music user token."
    }
    return failure
  }

  /// What the caller should do, if the upstream may have made the change that the request is for, or otherwise.
  private static func advice(mayHaveEffect: Bool) -> String {
    mayHaveEffect
      ? "The change may have been made all the same. Look before you send the request again."
      : "The request is correct. Send it again later."
  }
}

extension Duration {
  /// The seconds for `Retry-After`, rounded up, at least 1 (RFC 9110 §10.2.3).
  fileprivate var wholeSeconds: Int {
    let (seconds, attoseconds) = components
    return max(Int(clamping: seconds) + (attoseconds > 0 ? 1 : 0), 1)
  }
}

/// What Apple says in an error response.
extension UpstreamResponse {
  /// The maximum size of the content in bytes, encoded and decoded: 16 KiB. Apple's errors have some hundred.
  private static let mostBytes = 16_384
  /// The maximum number of values in the content.
  private static let mostValues = 512

  var words: ReplacedResponse { words(of: []) }

  /// What fields and content say. Reads the content if it is short JSON, and cancels it otherwise.
  func read(_ memory: MemoryBudget) async -> ReplacedResponse {
    if var error = errorContent(memory), case .whole? = try? await error.read() { return words(of: error.bytes) }
    content.cancel()
    return words
  }

  /// What fields and content say, if the content has arrived. Cancels the content.
  func readAtOnce(_ memory: MemoryBudget) -> ReplacedResponse {
    defer { content.cancel() }
    guard var error = errorContent(memory), case .whole? = try? error.readAtOnce() else { return words }
    return words(of: error.bytes)
  }

  private func errorContent(_ memory: MemoryBudget) -> PartialContent? {
    guard isJSON, contentLength ?? 0 <= Self.mostBytes else { return nil }
    return PartialContent(content, length: contentLength, upTo: Self.mostBytes, memory)
  }

  private func words(of content: [UInt8]) -> ReplacedResponse {
    let isGzip = !content.isEmpty && fields.text(of: "content-encoding") == "gzip"
    let text = isGzip ? try? Gzip.inflate(content, limit: Self.mostBytes) : content
    let error = text.flatMap { JSONReader.read($0, values: Self.mostValues)?["errors"]?.elements.first }
    func member(_ name: String) -> String? { error?[name]?.string.flatMap { Self.printable($0.bytes) } }
    func field(_ name: StaticString) -> String? { fields.text(of: name).flatMap { Self.printable(Array($0.utf8)) } }
    return ReplacedResponse(
      status: status.code, code: member("code"), id: member("id"), title: member("title"),
      correlationKey: field("x-apple-jingle-correlation-key"), requestUUID: field("x-apple-request-uuid"),
      retryAfter: field("retry-after"))
  }

  /// Returns text of the upstream's that is safe in a log and in a response: short printable ASCII. Nil for any other.
  private static func printable(_ text: [UInt8]) -> String? {
    guard (1...ReplacedResponse.longestText).contains(text.count), text.allSatisfy({ (0x20..<0x7F).contains($0) })
    else { return nil }
    return String(decoding: text, as: UTF8.self)
  }
}
