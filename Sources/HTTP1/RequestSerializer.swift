import Bytes
public import HTTPTypes

/// A serializer of requests (RFC 9112 §3, §5, §7.1). The output is always one well-formed head: control characters in
/// values become spaces, and a target that would end the request line is refused.
public enum RequestSerializer {
  /// Appends a request head, including its final empty line.
  /// - Parameters:
  ///   - target: The request target in origin form, sent byte for byte.
  ///   - host: The value of Host: name or address, with the port unless it is the scheme's default.
  ///   - fields: The end-to-end fields. The serializer omits the fields of the connection: Connection, Content-Length,
  ///     Host, Keep-Alive, Proxy-Authorization, Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade.
  ///   - credential: A field that is sent after `fields`.
  ///   - framing: The framing of the content. Methods that usually have some send a Content-Length of 0 (RFC 9110 §8.6).
  /// - Throws: ``RequestError/malformedTarget`` unless ``isOriginForm(_:)``.
  public static func append(
    _ method: HTTPRequest.Method, target: Span<UInt8>, host: String, fields: FieldLines,
    credential: FieldLines = FieldLines(), framing: MessageFraming, to output: inout [UInt8]
  ) throws(RequestError) {
    guard isOriginForm(target) else { throw .malformedTarget }
    appendLine(method, target, host, to: &output)
    output.appendLines(of: fields) { name, bytes in
      !bytes.isOfConnection(name) && !bytes.equalsIgnoringCase(name, "host")
        && !bytes.equalsIgnoringCase(name, "proxy-authorization")
    }
    output.appendLines(of: credential) { _, _ in true }
    switch framing {
    case .none where [.post, .put, .patch].contains(method): output.append("Content-Length: 0\r\n")
    case .none, .untilClose: break
    case .fixed(let length):
      output.append("Content-Length: ")
      output.append(decimal: length)
      output.append("\r\n")
    case .chunked: output.append("Transfer-Encoding: chunked\r\n")
    }
    output.append("\r\n")
  }

  /// Returns whether a target is a slash and visible ASCII, so that it cannot end its line (RFC 9112 §3.2.1).
  public static func isOriginForm(_ target: Span<UInt8>) -> Bool {
    guard !target.isEmpty, target[0] == .slash else { return false }
    return target.indices.allSatisfy { 0x21...0x7e ~= target[$0] }
  }

  /// Appends a request to a proxy to open a tunnel to `authority`, host and port (RFC 9110 §9.3.6).
  public static func appendConnect(to authority: String, authorization: String?, _ output: inout [UInt8]) {
    authority.withUTF8Bytes { appendLine(.connect, $0, authority, to: &output) }
    if let authorization { output.appendFieldLine(HTTPField(name: .proxyAuthorization, value: authorization)) }
    output.append("\r\n")
  }

  private static func appendLine(
    _ method: HTTPRequest.Method, _ target: Span<UInt8>, _ host: String, to output: inout [UInt8]
  ) {
    // The type guarantees that a method is a token.
    output.append(utf8: method.rawValue)
    output.append(.space)
    output.append(copying: target)
    output.append(" HTTP/1.1\r\nHost: ")
    host.withUTF8Bytes { output.appendSafely($0) }
    output.append("\r\n")
  }
}
