import Bytes
import HTTPTypes

extension [UInt8] {
  /// Appends the status line. The version is always the server's own, whatever the request's (RFC 9110 §2.5).
  mutating func appendStatusLine(_ status: HTTPResponse.Status) {
    if let line = Self.statusLine(status.code) { return append(line) }
    append("HTTP/1.1 ")
    append(decimal: status.code, width: 3)
    append(.space)
    var phrase = status.reasonPhrase
    // Safe: the span does not leave the closure that lends the bytes.
    phrase.withUTF8 { appendSafely(unsafe Span(_unsafeElements: $0)) }
    append("\r\n")
  }

  /// The whole status lines of the codes that this server answers with itself.
  private static func statusLine(_ code: Int) -> StaticString? {
    switch code {
    case 200: "HTTP/1.1 200 OK\r\n"
    case 204: "HTTP/1.1 204 No Content\r\n"
    case 304: "HTTP/1.1 304 Not Modified\r\n"
    case 400: "HTTP/1.1 400 Bad Request\r\n"
    case 401: "HTTP/1.1 401 Unauthorized\r\n"
    case 403: "HTTP/1.1 403 Forbidden\r\n"
    case 404: "HTTP/1.1 404 Not Found\r\n"
    case 405: "HTTP/1.1 405 Method Not Allowed\r\n"
    case 408: "HTTP/1.1 408 Request Timeout\r\n"
    case 413: "HTTP/1.1 413 Content Too Large\r\n"
    case 414: "HTTP/1.1 414 URI Too Long\r\n"
    case 417: "HTTP/1.1 417 Expectation Failed\r\n"
    case 429: "HTTP/1.1 429 Too Many Requests\r\n"
    case 431: "HTTP/1.1 431 Request Header Fields Too Large\r\n"
    case 500: "HTTP/1.1 500 Internal Server Error\r\n"
    case 501: "HTTP/1.1 501 Not Implemented\r\n"
    case 502: "HTTP/1.1 502 Bad Gateway\r\n"
    case 503: "HTTP/1.1 503 Service Unavailable\r\n"
    case 504: "HTTP/1.1 504 Gateway Timeout\r\n"
    case 505: "HTTP/1.1 505 HTTP Version Not Supported\r\n"
    default: nil
    }
  }
}
