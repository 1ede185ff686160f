/// The URL of an HTTP server to be asked one thing.
struct HTTPProbe {
  /// Why a URL cannot be asked.
  struct InvalidURL: Error, Equatable {
    let description: String
  }

  let url: String
  /// The host without brackets, for the resolver.
  let host: String
  let port: String
  /// The authority as it stood, for the `Host` field.
  let authority: String
  let target: String

  /// The parts of an `http` URL.
  init(url: String) throws(InvalidURL) {
    let isPlain = url.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    guard isPlain, url.hasPrefix("http://") else {
      let reason = url.hasPrefix("https://") ? "health checks speak plain HTTP only" : "it is no http:// URL"
      throw InvalidURL(description: "The URL cannot be asked: \(reason).")
    }
    let rest = url.dropFirst("http://".count)
    let authority = rest.prefix { !"/?#".contains($0) }
    let target = rest.dropFirst(authority.count).prefix { $0 != "#" }
    let portStart = Self.portStart(in: authority)
    let host = authority[..<(portStart ?? authority.endIndex)]
    let port = portStart.map { authority[authority.index(after: $0)...] } ?? "80"
    guard !host.isEmpty, !authority.contains("@"), let number = UInt16(port), number > 0 else {
      throw InvalidURL(description: "The URL cannot be asked: its host or port is malformed.")
    }
    self.url = url
    self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : String(host)
    self.port = String(port)
    self.authority = String(authority)
    self.target = target.hasPrefix("/") ? String(target) : "/" + target
  }

  private static func portStart(in authority: Substring) -> Substring.Index? {
    let afterBrackets = authority.lastIndex(of: "]") ?? authority.startIndex
    return authority[afterBrackets...].lastIndex(of: ":")
  }

  /// The request's bytes.
  var request: [UInt8] {
    Array("GET \(target) HTTP/1.1\r\nHost: \(authority)\r\nConnection: close\r\n\r\n".utf8)
  }

  /// The status code of a status line (RFC 9112 §4); nil if the response is too short or has no status line.
  static func statusCode(_ response: [UInt8]) -> Int? {
    // "HTTP/1.1 200" and what ends the code.
    guard response.count > 12, response.starts(with: "HTTP/1.".utf8), response[8] == 0x20,
      response[12] == 0x20 || response[12] == 0x0D
    else { return nil }
    let digits = response[9..<12]
    guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
  }
}
