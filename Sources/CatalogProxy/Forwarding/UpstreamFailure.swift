import HTTPCache
import HTTPMessages
import HTTPTypes
import UpstreamAdmission

/// What a caller is told when there is no response of Apple's to hand on: the one place where causes become responses.
struct UpstreamFailure: Error, Sendable, Equatable {
  /// The `code` of the error object.
  var code: ErrorCode
  /// What happened and what to do: a sentence or two for the caller, with nothing of this server's network in it.
  var detail: String
  /// When to come back, in seconds, for `Retry-After`.
  var retryAfter: Int?
  /// For `Proxy-Status`.
  var proxyStatus: ProxyStatus

  init(_ code: ErrorCode, _ detail: String, retryAfter: Int? = nil, _ proxyStatus: ProxyStatus) {
    self.code = code
    self.detail = detail
    self.retryAfter = retryAfter
    self.proxyStatus = proxyStatus
  }

  /// The response to the caller.
  ///
  /// - Parameter status: What the cache has to say; nil if the request is not for the cache.
  func response(_ status: CacheStatus?) -> ErrorResponse {
    var fields: HTTPFields = [.proxyStatus: proxyStatus.fieldValue]
    if let status { fields[.cacheStatus] = status.fieldValue }
    return ErrorResponse(code, detail, fields: fields, retryAfter: retryAfter)
  }

  /// An exchange failed.
  ///
  /// - Parameter nextHop: The upstream's host.
  init(_ error: UpstreamError, nextHop: String) {
    let status = ProxyStatus(error: Self.errorType(error.cause), nextHop: nextHop)
    switch error.cause {
    case .dnsTimeout, .connectionTimeout, .connectionReadTimeout, .connectionWriteTimeout, .responseTimeout:
      self.init(.upstreamTimeout, "\(nextHop) did not answer in time. \(Self.whatToDo)", status)
    case .connectionLimitReached:
      self.init(
        .overloaded, "Too many requests are on their way to \(nextHop). Send the request again.", retryAfter: 1, status)
    case .dnsError, .destinationUnavailable, .destinationIPUnroutable, .connectionRefused:
      self.init(.upstreamError, "\(nextHop) cannot be reached. \(Self.whatToDo)", status)
    case .tlsProtocolError, .tlsCertificateError, .tlsAlertReceived:
      self.init(.upstreamError, "There is no secure connection to \(nextHop). The server's log says why.", status)
    case .connectionTerminated, .responseIncomplete, .responseHeaderSectionSize, .protocolError:
      self.init(.upstreamError, "\(nextHop) broke off its response, or sent none. \(Self.whatToDo)", status)
    case .proxyInternalError, .cancelled:
      self.init(.upstreamError, "The request to \(nextHop) was given up. \(Self.whatToDo)", status)
    }
  }

  /// The upstream, or this resource of it, has failed too often of late, and is not asked for now.
  static func circuitOpen(_ refusal: UpstreamCircuit.Refusal, nextHop: String) -> UpstreamFailure {
    let what = refusal.isOfResource ? "This resource of \(nextHop)" : nextHop
    return UpstreamFailure(
      .upstreamError, "\(what) has failed repeatedly and is given a moment. Send the request again after it.",
      retryAfter: refusal.retryAfter.wholeSeconds, ProxyStatus(error: "destination_unavailable", nextHop: nextHop))
  }

  /// Too many requests wait for their turn already.
  static func overloaded(retryAfter: Duration) -> UpstreamFailure {
    UpstreamFailure(
      .overloaded, "Too many requests wait for their turn. Send the request again after a moment.",
      retryAfter: retryAfter.wholeSeconds, ProxyStatus(error: "connection_limit_reached"))
  }

  /// There is no memory to collect the response in.
  static let overMemory = UpstreamFailure(
    .overloaded, "This server holds as much for its clients as it can. Send the request again after a moment.",
    retryAfter: 1, ProxyStatus(error: "proxy_internal_error"))

  /// The upstream says that the team asks too often, and went on saying so.
  static func rateLimited(retryAfter: Duration, nextHop: String) -> UpstreamFailure {
    UpstreamFailure(
      .upstreamRateLimited, "\(nextHop) limits how often the team may ask. Send the request again after a moment.",
      retryAfter: retryAfter.wholeSeconds, ProxyStatus(receivedStatus: 429, nextHop: nextHop))
  }

  /// The upstream refuses the developer token, and a fresh one too.
  static func tokenRejected(_ rejection: TokenRejection, nextHop: String) -> UpstreamFailure {
    UpstreamFailure(
      .developerTokenRejected, rejection.description, ProxyStatus(receivedStatus: 401, nextHop: nextHop))
  }

  /// The request's turn did not come in time.
  static func waitedTooLong(nextHop: String) -> UpstreamFailure {
    UpstreamFailure(
      .upstreamTimeout, "The request waited too long for its turn to go to \(nextHop). \(whatToDo)", retryAfter: 1,
      ProxyStatus(error: "connection_limit_reached", nextHop: nextHop))
  }

  /// The server ends, and with it the request.
  static func givenUp(nextHop: String) -> UpstreamFailure {
    UpstreamFailure(UpstreamError(.cancelled, .unanswered, ""), nextHop: nextHop)
  }

  /// There is no developer token to send with.
  static let noToken = UpstreamFailure(
    .noSigningKey, "This server cannot make a developer token at present. Its log says why.",
    ProxyStatus(error: "proxy_internal_error"))

  /// The caller forbids asking upstream, and the cache has no response (RFC 9111 §5.2.1.7).
  static let onlyIfCached = UpstreamFailure(
    .upstreamTimeout, "Nothing is stored for this request, and its Cache-Control says only-if-cached.",
    ProxyStatus())

  /// The upstream failed in its own way: 5xx.
  static func status(_ status: HTTPResponse.Status, nextHop: String) -> UpstreamFailure {
    UpstreamFailure(
      .upstreamError, "\(nextHop) answered with the status \(status.code). \(whatToDo)",
      ProxyStatus(receivedStatus: status.code, nextHop: nextHop))
  }

  private static let whatToDo = "The request is correct: send it again later."

  /// The registered type (RFC 9209 §2.3). No type exists for a request that its callers have given up, so it gets the
  /// one for an internal error.
  private static func errorType(_ cause: UpstreamError.Cause) -> String {
    cause == .cancelled ? UpstreamError.Cause.proxyInternalError.rawValue : cause.rawValue
  }
}

extension Duration {
  /// Rounded up, at least 1: for `Retry-After` (RFC 9110 §10.2.3).
  fileprivate var wholeSeconds: Int {
    let (seconds, attoseconds) = components
    return max(Int(clamping: seconds) + (attoseconds > 0 ? 1 : 0), 1)
  }
}

/// The value of `Proxy-Status` (RFC 9209): what went wrong on the way to the upstream, and who says so.
struct ProxyStatus: Sendable, Equatable {
  /// The proxy's name: a token (RFC 9110 §5.6.2).
  var proxy: String
  /// The error type (RFC 9209 §2.3); nil if the upstream's response itself is the matter.
  var error: String?
  /// The status that the upstream answered with.
  var receivedStatus: Int?
  /// The host that was asked.
  var nextHop: String?

  /// A status of this server.
  init(
    error: String? = nil, receivedStatus: Int? = nil, nextHop: String? = nil,
    proxy: String = "musickit-token-server"
  ) {
    self.proxy = proxy
    self.error = error
    self.receivedStatus = receivedStatus
    self.nextHop = nextHop
  }

  /// The field value: a list of one item with parameters (RFC 9651 §3.3).
  var fieldValue: String {
    var value = proxy
    if let error { value += "; error=\(error)" }
    if let receivedStatus { value += "; received-status=\(receivedStatus)" }
    if let nextHop { value += "; next-hop=\(Self.string(nextHop))" }
    return value
  }

  /// A structured string (RFC 9651 §3.3.3): printable ASCII, quote and backslash escaped.
  private static func string(_ text: String) -> String {
    var value = "\""
    for scalar in text.unicodeScalars where (" "..."~").contains(scalar) {
      if scalar == "\"" || scalar == "\\" { value += "\\" }
      value.unicodeScalars.append(scalar)
    }
    return value + "\""
  }
}
