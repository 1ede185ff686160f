import Access
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes

/// Cross-origin resource sharing (the Fetch standard, §3.3), by the same policy as for tokens.
struct CrossOrigin: Sendable {
  let policy: AccessPolicy
  /// Called for each refused preflight request, with its origin or `null`.
  var refused: @Sendable (_ origin: String, Request) -> Void = { _, _ in }

  /// The only field that `finish` needs of a request, except for preflight requests, which never wait.
  static let field: StaticString = "origin"

  /// Adds the fields that let a page of an allowed origin read the response. Errors get them too: otherwise the page
  /// would see a network failure instead.
  func finish(_ response: inout Response, _ request: Request) {
    // A response for every origin says so itself.
    guard response.fields[.accessControlAllowOrigin] == nil else { return }
    // The response depends on Origin even if the request has no Origin. Prepared fields already contain Vary.
    if response.prepared == .empty { response.fields[.vary] = "Origin" }
    let presented = PresentedCredentials.RequestOrigin(request, known: policy)
    guard case .present(let origin) = presented, policy.mayRead(origin) else {
      if let name = presented.name, isPreflight(request) { refused(name, request) }
      return
    }
    response.fields[.accessControlAllowOrigin] = origin.description
    if request.method == .options {
      allowPreflight(&response, request)
    } else {
      response.fields[.accessControlExposeHeaders] = Self.exposed
    }
  }

  /// Answers a preflight request (the Fetch standard, §3.3.2).
  private func allowPreflight(_ response: inout Response, _ request: Request) {
    guard isPreflight(request) else { return }
    response.fields[.accessControlAllowMethods] =
      request.route?.isUser ?? false
      ? "GET, POST, PUT, PATCH, DELETE" : request.hasPath("/token") ? "GET, POST" : "GET"
    response.fields[.accessControlAllowHeaders] =
      policy.knowsCredentials ? Self.allowed + Self.credentials : Self.allowed
    response.fields[.accessControlMaxAge] = "600"
  }

  private func isPreflight(_ request: Request) -> Bool {
    guard request.method == .options else { return false }
    guard case .single = request.field("access-control-request-method") else { return false }
    return true
  }

  private static let allowed =
    "Accept, Content-Type, Cache-Control, If-None-Match, If-Modified-Since, Music-User-Token, traceparent, tracestate"

  private static let credentials = ", Authorization, X-API-Key"

  private static let exposed =
    "X-Request-ID, Retry-After, RateLimit, RateLimit-Policy, ETag, Age, Date, Cache-Status, Proxy-Status, Location"
}

extension StaticString {
  /// Whether the route is below `/v1/me`, where there are more methods.
  fileprivate var isUser: Bool { description.hasPrefix("/v1/me") }
}
