import HTTPServer
import Telemetry

/// What the audit log needs of a request, also after the request itself is gone.
struct AuditContext: Sendable {
  let id: RequestID
  /// Where it came from.
  let address: String
  /// The address for rate limits: an IPv4 address, an IPv6 network of /64, or `unix`.
  let rateLimitPrefix: String
  /// The route's template.
  let route: StaticString

  init(_ request: Request) {
    id = request.id
    address = request.client
    rateLimitPrefix = request.rateLimitPrefix
    route = request.route ?? "-"
  }

  /// Whether it is one of Apple's paths. Below `/v1/` the server's own refusals are never 403: apps take that for the sign
  /// to fetch a new music user token.
  var isOfApple: Bool { route.description.hasPrefix("/v1/") }
}
