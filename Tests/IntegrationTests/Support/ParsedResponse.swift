import JSON
import TestSupport

/// A parsed response.
struct ParsedResponse {
  let version: String
  let status: Int
  let fields: [(name: String, value: String)]
  let body: [UInt8]

  /// Sends a request by curl, whose options these are. A GET over plain HTTP that has none but fields is sent without
  /// curl: the tests send thousands of them, and a process costs twenty times as much as a request.
  init(curl options: [String]) throws {
    if let target = PlainTarget(options) {
      self = try target.response()
      return
    }
    let result = try run("curl", ["-sS", "-i", "--globoff", "--noproxy", "*", "--max-time", "60"] + options)
    guard result.status == 0 else { throw TestFailure("curl ended with \(result.status): \(result.stderr)") }
    guard let response = Self(result.standardOutput) else { throw TestFailure("No response: \(result.stdout)") }
    self = response
  }

  /// The final response at the beginning of `bytes`, with everything after its header section as its content; nil if no
  /// final response is complete.
  init?(_ bytes: [UInt8]) {
    guard let end = Self.headEnd(bytes) else { return nil }
    let lines = String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\r\n")
    let words = lines.first?.split(separator: " ") ?? []
    guard words.count > 1, let status = Int(words[1]) else { return nil }
    // Interim responses come before the final one (RFC 9110 §15.2).
    if status < 200 {
      guard let final = Self(Array(bytes[end...])) else { return nil }
      self = final
      return
    }
    version = String(words[0])
    self.status = status
    fields = lines.dropFirst().map { line in
      let parts = line.split(separator: ":", maxSplits: 1)
      return (String(parts[0]), parts.count > 1 ? String(parts[1].drop { $0 == " " }) : "")
    }
    body = Array(bytes[end...])
  }

  private static func headEnd(_ bytes: [UInt8]) -> Int? {
    // Four bytes are compared only behind a line's end, because an unoptimised test compares slowly.
    var end = bytes[...]
    while let index = end.firstIndex(of: UInt8(ascii: "\n")) {
      if bytes[...index].suffix(4) == [13, 10, 13, 10] { return index + 1 }
      end = bytes[(index + 1)...]
    }
    return nil
  }

  /// The values of a field, joined as a list; nil without such a field.
  subscript(name: String) -> String? {
    let values = fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    return values.isEmpty ? nil : values.joined(separator: ", ")
  }

  var text: String { String(decoding: body, as: UTF8.self) }

  var json: JSONValue? { JSONReader.read(body) }

  /// The `code` of the only error object.
  var errorCode: String? { error?["code"]?.string }

  /// The `detail` of the only error object.
  var errorDetail: String? { error?["detail"]?.string }

  /// The only error object.
  var error: JSONValue? {
    guard case .array(let errors) = json?["errors"], errors.count == 1 else { return nil }
    return errors[0]
  }

  /// The token of a response of `/token`.
  var token: String? { json?["token"]?.string }

  /// The lifetime of that token in seconds: from `iat`, which is backdated by one minute, to `exp`. `expiresIn` decreases
  /// while a token is in the cache.
  var lifetime: Int? {
    guard let json, let issued = json["issuedAt"]?.integer, let expires = json["expiresAt"]?.integer else { return nil }
    return expires - issued - 60
  }
}

/// A GET over plain HTTP, read from the options of curl.
private struct PlainTarget {
  private let port: UInt16
  private let head: String

  /// Nil if the options have anything else in them, or something that curl would change.
  init?(_ options: [String]) {
    guard let url = options.last?.wholeMatch(of: /http:\/\/127\.0\.0\.1:(\d+)(\/[!"$-~]*)/), !url.2.contains("/."),
      let port = UInt16(url.1)
    else { return nil }
    var fields: [String] = []
    var rest = options.dropLast()
    while let option = rest.popFirst() {
      // A field without a value is one that curl omits.
      guard option == "-H", let field = rest.popFirst(), let colon = field.firstIndex(of: ":"),
        !["host", "accept", "user-agent"].contains(field[..<colon].lowercased()), !field.hasSuffix(":")
      else { return nil }
      fields.append(field)
    }
    self.port = port
    let own = ["GET \(url.2) HTTP/1.1", "Host: 127.0.0.1:\(port)", "User-Agent: tests", "Accept: */*"]
    head = (own + fields).map { "\($0)\r\n" }.joined() + "\r\n"
  }

  func response() throws -> ParsedResponse {
    let connection = try RawConnection(port: port)
    connection.send(head)
    return try connection.response()
  }
}
