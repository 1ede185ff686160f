import HTTPMessages

extension ErrorCode {
  /// When the server sends this code, and what to do: sentences of Markdown on one line.
  var meaning: String {
    switch self {
    case .malformedRequest:
      "The request is not HTTP as RFC 9112 defines it (the connection closes), is plain HTTP to an HTTPS port, has a path "
        + "or query below `/v1/` that two servers could read in two ways, or has content that is not a JSON object or has "
        + "more than 256 values."
    case .invalidParameter:
      "A parameter is unknown, repeated, or in the content of a `GET`, a `ttl` is out of bounds, or an `origin` is not an origin."
    case .missingCredentials: "The request has no credential, or no `Origin` where the server needs one."
    case .invalidCredentials:
      "A credential of any kind is invalid, or the request has several. A valid developer token of this server's own keys "
        + "counts as no credential."
    case .originNotAllowed:
      "The `Origin` or a requested `origin` is not the client's. Below `/v1/` with status 404, because apps take 403 "
        + "there for the user's token."
    case .notPermitted:
      "The client may not have this: `token`, `catalog`, `me`, the storefront, or something of a user's in the catalog. "
        + "Below `/v1/` with status 404."
    case .rateLimited:
      "The request exceeds the client's `rateLimit`, or the address has sent too many invalid credentials. Wait as "
        + "`Retry-After` says."
    case .notFound: "The path does not exist."
    case .methodNotAllowed: "The path does not have this method; see `Allow`."
    case .requestTimeout: "The header section or the content did not arrive in time."
    case .contentTooLarge: "The content of a request for a token is over `server.limits.bodyBytes`."
    case .uriTooLong: "The request line is over `server.limits.requestLine`."
    case .expectationFailed: "The `Expect` field is not `100-continue`."
    case .headerFieldsTooLarge: "The header section is over its limits, or the trailers are over 8 KiB."
    case .internalError: "The server cannot make a token: its clock cannot be right, or OpenSSL failed."
    case .notImplemented: "The method is `CONNECT` or unknown, or the transfer coding is not `chunked`."
    case .misdirectedRequest:
      "The request names a host that the server does not serve: see `server.hosts`, and `admin.hosts` for the "
        + "admin listener."
    case .upstreamError:
      "Apple responded with 5xx, or with content that this server does not pass on, the connection broke, or Apple cannot "
        + "be reached; `Proxy-Status` says which, and `meta` what Apple said."
    case .developerTokenRejected:
      "Apple responded with 401 to a new token too: the operator has to fix it, not the caller. `detail` has the "
        + "reason if the server can tell."
    case .upstreamRateLimited: "Apple limits the team's requests, after retries too. Wait as `Retry-After` says."
    case .upstreamTimeout:
      "Apple did not respond in time, or the cache has nothing for a request with `only-if-cached`."
    case .overloaded:
      "There are too many connections, in all or from this address; a request would wait too long for its turn at "
        + "Apple, or for a signature; `server.limits.memory` is used up; or the server has no keys of the identity "
        + "provider. Wait as `Retry-After` says. Over TLS, a connection too many closes without a response."
    case .draining: "The server is ending, and `server.drain.timeout` has passed. Wait as `Retry-After` says."
    case .noSigningKey: "The server cannot make a developer token at present; the log has the reason."
    case .auditUnavailable:
      "The server cannot record the grant, and `audit.required` is true. Wait as `Retry-After` says."
    case .httpVersionNotSupported: "The major version is not 1."
    }
  }
}
