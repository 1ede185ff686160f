import DeveloperToken
import HTTP1
import HTTPServer
import HTTPTypes

/// Cross-origin resource sharing (the Fetch standard, §3.3), from the same policy that gives tokens.
struct CrossOrigin: Sendable {
  let policy: AnonymousPolicy

  /// Adds what lets a page of an allowed origin read the response, errors included.
  func finish(_ response: inout Response, _ request: Request) {
    guard request.route == "/token" else { return }
    if response.fields[.vary] == nil { response.fields[.vary] = "Origin" }
    guard case .present(let origin) = RequestOrigin(request), policy.admits(origin) else { return }
    response.fields[.accessControlAllowOrigin] = origin.description
    if request.method == .options {
      guard case .single = request.field("access-control-request-method") else { return }
      response.fields[.accessControlAllowMethods] = "GET, POST"
      response.fields[.accessControlAllowHeaders] = "Accept, Content-Type, Cache-Control"
      response.fields[.accessControlMaxAge] = "600"
    } else {
      response.fields[.accessControlExposeHeaders] =
        "X-Request-ID, Retry-After, RateLimit, RateLimit-Policy"
    }
  }
}

extension StaticString {
  fileprivate static func == (left: StaticString?, right: StaticString) -> Bool {
    left.map { $0.description == right.description } ?? false
  }
}
