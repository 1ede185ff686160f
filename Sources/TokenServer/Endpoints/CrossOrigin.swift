import Access
import Bytes
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes

/// Cross-origin resource sharing (the Fetch standard, §3.3), by the same policy as for tokens.
struct CrossOrigin: Sendable {
  let policy: AccessPolicy
  /// Called for each refused preflight request, with its origin or `null`.
  var refused: @Sendable (_ origin: String, Request) -> Void = { _, _ in }

  /// The only field that `finish` needs, except for preflight requests, which never wait.
  static let field: StaticString = "origin"
  static let preflightFields: [StaticString] = ["access-control-request-method", "access-control-request-headers"]

  /// Lets a page of an allowed origin read the response. Errors too: the page would see a network failure instead.
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
    if request.method == .options || isPreflight(request) {
      allowPreflight(&response, request)
    } else {
      response.fields[.accessControlExposeHeaders] = Self.exposed
    }
  }

  /// Answers a preflight request (the Fetch standard, §3.3.2).
  private func allowPreflight(_ response: inout Response, _ request: Request) {
    guard isPreflight(request) else { return }
    // The request itself gets the reason: a page never reads that of a refused preflight.
    let isRefused = (400..<500).contains(response.status.code) && response.status != .tooManyRequests
    if isRefused {
      (response.status, response.prepared, response.body) = (.noContent, .empty, [])
      response.fields[.vary] = "Origin"
    }
    // There are more methods below `/v1/me`.
    let isUser = isRefused || request.route?.description.hasPrefix("/v1/me") ?? false
    response.fields[.accessControlAllowMethods] =
      isUser ? "GET, POST, PUT, PATCH, DELETE" : request.hasPath("/token") ? "GET, POST" : "GET"
    response.fields[.accessControlAllowHeaders] = Self.allowed + Self.furtherFields(request)
    response.fields[.accessControlMaxAge] = "600"
  }

  /// Returns the further names that the page asks for; empty if there are too many. Programs that monitor pages add fields
  /// to every request (`baggage`, `sentry-trace`, `x-datadog-…`), and one missing name would stop it in the browser. The
  /// names decide nothing else: the origin is allowed already, and the server ignores fields that it does not know.
  private static func furtherFields(_ request: Request) -> String {
    var names = ""
    var count = 0
    var isWhole = true
    request.forEach("access-control-request-headers") { value in
      for name in value.elements {
        count += 1
        // A star would stand for every name.
        guard count <= mostNames, names.utf8.count + name.utf8.count <= mostBytesOfNames, name != "*",
          HTTPField.Name(name) != nil
        else { return isWhole = false }
        if !usual.contains(ByteString(name).lowercasedASCII) { names += ", \(name)" }
      }
    }
    return isWhole ? names : ""
  }

  /// The bounds of the names that a preflight may ask for. Browsers send each name once, and pages have some dozens.
  private static let mostNames = 64
  private static let mostBytesOfNames = 2048

  private func isPreflight(_ request: Request) -> Bool {
    // Of a head that the codec has refused, the method may be unknown. No page can set the field.
    guard request.method == .options || request.head.target.isEmpty,
      case .single = request.field("access-control-request-method")
    else { return false }
    return true
  }

  /// The names that every preflight gets, because a browser keeps the response for the next requests of the page.
  private static let allowed =
    "Accept, Content-Type, Cache-Control, If-None-Match, If-Modified-Since, Music-User-Token, Authorization, X-API-Key, "
    + "traceparent, tracestate"

  private static let usual: Set<ByteString> = allowed.split(separator: ", ").reduce(into: []) { names, name in
    names.insert(ByteString(name).lowercasedASCII)
  }

  private static let exposed =
    "X-Request-ID, Retry-After, RateLimit, RateLimit-Policy, ETag, Age, Date, Cache-Status, Proxy-Status, Location, "
    + "X-Apple-Request-UUID, X-Apple-Jingle-Correlation-Key"
}

extension Span<UInt8> {
  /// The elements of a list, without surrounding white space and without empty ones.
  fileprivate var elements: [String] {
    indices.split { self[$0] == UInt8(ascii: ",") }.map { trimmingWhitespace($0) }
      .filter { !$0.isEmpty }.map { range in String(decoding: range.map { self[$0] }, as: UTF8.self) }
  }
}
