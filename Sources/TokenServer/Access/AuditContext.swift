import HTTPServer
import Telemetry
import Tracing

/// The facts of a request that the audit log needs, even after the request ends.
struct AuditContext: Sendable {
  let id: RequestID
  let trace: RequestTrace
  let address: String
  /// The address for rate limits: an IPv4 address, an IPv6 network of /64, or `unix`.
  let rateLimitPrefix: String
  let route: StaticString

  init(_ request: Request) {
    id = request.id
    trace = request.trace
    address = request.clientAddress
    rateLimitPrefix = request.rateLimitPrefix
    route = request.route ?? "-"
  }

  /// Whether the path is one of Apple's. Below `/v1/`, the server's own refusals are never 403, because apps take a 403
  /// as the sign to fetch a new music user token.
  var isOfApple: Bool { route.description.hasPrefix("/v1/") }

  /// Returns the record of a decision about the request. Inlined, because every grant and every refusal makes one.
  ///
  /// - Parameter client: The client's id in the settings; `-` if the caller belongs to no client.
  @inline(__always)
  func record(
    _ outcome: AuditOutcome, of client: String, reason: StaticString? = nil, origin: String? = nil,
    token: AuditRecord.Token? = nil
  ) -> AuditRecord {
    AuditRecord(
      requestID: id, trace: trace, client: client, address: address, route: route, outcome: outcome, reason: reason,
      origin: origin, token: token)
  }
}
