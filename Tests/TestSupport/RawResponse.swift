/// A response as received on the wire.
public struct RawResponse: Sendable {
  /// The status line, such as `HTTP/1.1 200 OK`.
  public let statusLine: String
  /// The field lines in order, with names in lower case.
  public let fields: [(name: String, value: String)]
  /// The content.
  public let body: [UInt8]

  /// The status code, or 0 without a valid one.
  public var status: Int { Int(statusLine.split(separator: " ").dropFirst().first ?? "") ?? 0 }

  /// The content as text.
  public var text: String { String(decoding: body, as: UTF8.self) }

  /// The value of the only field line with this lower-case name. Nil unless there is exactly one.
  public subscript(_ name: String) -> String? {
    let values = fields.filter { $0.name == name }
    return values.count == 1 ? values.first?.value : nil
  }

  /// Whether the response announces that it is the last on its connection.
  public var isLast: Bool { self["connection"] == "close" }

  /// Parses the response at the start of `bytes`, and returns it with its length. Returns nil if it is incomplete.
  static func parse(_ bytes: [UInt8], isHead: Bool) throws -> (response: RawResponse, length: Int)? {
    guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
    let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
    guard let statusLine = lines.first, statusLine.hasPrefix("HTTP/1.1 ") else {
      throw TestFailure("This is no response: \(String(decoding: bytes.prefix(80), as: UTF8.self))")
    }
    let fields = try lines.dropFirst().map { line in
      guard let colon = line.firstIndex(of: ":") else { throw TestFailure("This is no field line: \(line)") }
      return (line[..<colon].lowercased(), String(line[line.index(after: colon)...].drop { $0 == " " }))
    }
    let head = RawResponse(statusLine: String(statusLine), fields: fields, body: [])
    let hasContent = !isHead && head.status >= 200 && head.status != 204 && head.status != 304
    let length = hasContent ? try head.contentLength : 0
    guard bytes.count - end.upperBound >= length else { return nil }
    let body = Array(bytes[end.upperBound..<end.upperBound + length])
    return (RawResponse(statusLine: head.statusLine, fields: fields, body: body), end.upperBound + length)
  }

  private var contentLength: Int {
    get throws {
      guard let length = self["content-length"].flatMap({ Int($0) }) else {
        throw TestFailure("A \(status) has no Content-Length.")
      }
      return length
    }
  }
}
