import Bytes
package import HTTPTypes
import JSON

/// A request to the emulator: a value without a socket or a parser.
package struct SandboxRequest: Sendable {
  /// The method in upper case, as registered.
  package let method: String
  /// The path as received, percent-encoded, without the query.
  let path: String
  /// The query as received, without its `?`; nil if the request has no query.
  let query: String?
  /// The host and optional port, for absolute URLs in responses; empty if the request has none.
  let authority: String
  /// The field lines in the order received, without `Host` and pseudo-header fields.
  let fields: HTTPFields
  package var content: [UInt8]
  /// The protocol, as in `HTTP/2`, for the log of requests.
  let protocolName: String

  package init(
    _ method: String = "GET", _ path: String, query: String? = nil, authority: String = "",
    fields: HTTPFields = [:], content: [UInt8] = [], protocolName: String = "HTTP/1.1"
  ) {
    (self.method, self.path, self.query, self.authority) = (method, path, query, authority)
    (self.fields, self.content, self.protocolName) = (fields, content, protocolName)
  }

  var target: String { query.map { "\(path)?\($0)" } ?? path }

  /// The decoded segments of the path; none if an escape is malformed, or is one of a slash, a control character or a
  /// byte beyond ASCII. Parsers interpret these differently, and none of Apple's paths has them.
  var segments: [String] {
    guard path.utf8.first == UInt8(ascii: "/"), path.utf8.allSatisfy({ $0 < 0x80 }) else { return [] }
    var segments: [String] = []
    for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
      guard let segment = PercentEncoding.text(part),
        !segment.utf8.contains(where: { $0 < 0x20 || $0 == 0x2F || $0 >= 0x80 })
      else { return [] }
      segments.append(segment)
    }
    // Apple accepts a slash at the end, which three public programs send.
    if segments.count > 1, segments.last == "" { segments.removeLast() }
    return segments
  }
}

extension HTTPFields {
  /// Returns the values of all lines with that name. A value beyond ASCII becomes a single replacement character, which
  /// is always invalid: only ASCII compares in linear time as a `String`.
  func plain(_ name: HTTPField.Name) -> [String] {
    self[values: name].map { value in value.utf8.allSatisfy { $0 < 0x80 } ? value : "\u{FFFD}" }
  }

  /// Returns the value if there is exactly one line of that name. So a repeated credential has no effect.
  func single(_ name: HTTPField.Name) -> String? {
    let values = plain(name)
    return values.count == 1 ? values[0] : nil
  }
}

/// A response of the emulator, and the faults that change the way to send it.
package struct SandboxResponse: Sendable, Equatable {
  package var status: Int
  package var fields: HTTPFields
  package var content: [UInt8]
  /// The delay before the response, unless a fault demands another.
  var latency = Duration.zero
  var faults: [Fault] = []

  package var delay: Duration { number(.delay).map { .milliseconds($0) } ?? latency }
  package func number(_ kind: Fault.Kind) -> Int? { faults.last { $0.kind == kind }?.number }

  init(_ status: Int, fields: HTTPFields = [:], content: [UInt8] = []) {
    (self.status, self.fields, self.content) = (status, fields, content)
  }

  init(_ status: Int, _ document: JSONValue?) {
    self.init(status, content: document?.bytes ?? [])
    if document != nil { fields[.contentType] = Self.mediaType }
  }

  init(_ error: AppleError, id: String) {
    self.init(error.status, error.document(id: id))
    fields[.allow] = error.allow
  }

  static let mediaType = "application/json;charset=utf-8"
  /// Apple's response to a refused developer token, which is empty.
  static let unauthorized = SandboxResponse(401)
  /// Apple's response above its rate. It is not in the documented form, and has no `Retry-After`.
  static let rateLimited = SandboxResponse(429, ["message": "API capacity exceeded"])
  /// The response to a CORS preflight request. Apple allows every page.
  static let preflight = SandboxResponse(
    200,
    fields: [
      .accessControlAllowHeaders: "Authorization, Content-Type, Music-User-Token, X-Sandbox-Fault",
      .accessControlAllowMethods: "GET, POST, PUT, PATCH, DELETE", .accessControlMaxAge: "600",
    ])
}

/// An error in Apple's documented form.
struct AppleError: Error, Equatable {
  /// A kind of error: its row in `Data/errors.json`.
  enum Kind: String, Sendable, CaseIterable {
    case missingParameter, unknownParameter, invalidParameter, invalidContent, invalidPath, noLyrics, libraryFull
    case unchangeable, noSubscription, invalidUserToken
    case resourceNotFound, pathNotFound, noRelatedResources, methodNotAllowed
    case upstreamFault, unavailable, otherFault

    var row: JSONValue { AppleError.table[rawValue] ?? .null }
  }

  private static let table = SandboxFile(embedded: "errors.json").value

  private let kind: Kind
  let status: Int
  private let detail: String?
  private let parameter: String?
  let allow: String?

  /// Creates an error with the sentence of its kind or another, and the wrong parameter of the request.
  init(_ kind: Kind, _ detail: String? = nil, parameter: String? = nil, allow: String? = nil, status: Int? = nil) {
    (self.kind, self.detail, self.parameter, self.allow) = (kind, detail, parameter, allow)
    self.status = status ?? kind.row["status"]?.integer ?? 500
  }

  static func invalid(_ parameter: String, _ detail: String) -> AppleError {
    AppleError(.invalidParameter, detail, parameter: parameter)
  }

  static func noMatch(_ parameter: String, _ value: ByteString) -> AppleError {
    let word = parameter.hasSuffix("s") ? parameter.dropLast() : parameter[...]
    return .invalid(parameter, "No \(word) found matching '\(value.text.prefix(64))'")
  }

  init(status: Int) {
    self.init(status == 500 ? .upstreamFault : status == 503 ? .unavailable : .otherFault, status: status)
  }

  func document(id: String) -> JSONValue {
    let row = kind.row
    let parameter = parameter.map(JSONValue.text)
    let detail = detail.map(JSONValue.text) ?? row["detail"]?.filled { $0 == "parameter" ? parameter : nil }
    let error = JSONValue.object(of: [
      ("id", .text(id)), ("title", row["title"]), ("detail", detail), ("status", "\(status)"),
      ("code", row["code"] ?? "\(status)00"), ("source", parameter.map { ["parameter": $0] }),
    ])
    return ["errors": [error]]
  }
}
