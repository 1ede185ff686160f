import Access
import Bytes
import HTTPMessages
import JSON
import TLS

/// A request that an operator describes: a JSON object, each member of which is optional.
///
/// ```json
/// {"method": "GET", "path": "/token", "credential": "…", "certificateNames": ["spiffe://…"], "origin": "https://…"}
/// ```
///
/// `client`, the ID of a client, stands for a valid credential of that client.
struct DescribedRequest: Sendable {
  private var method = ByteString("GET")
  private var path = ByteString("/token")
  /// The API key or JWT after `Authorization: Bearer`.
  private var credential: ByteString?
  /// The names that the server uses of the verified TLS client certificate; nil without a certificate.
  private var certificateNames: [SubjectName]?
  private var origin: ByteString?
  /// The ID of a client whose valid credential the request has, in place of the credential itself; nil without one.
  private(set) var client: ByteString?

  private static let members = "method, path, credential, certificateNames, client and origin"
  private static let methods: [ByteString] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
  private static let mostValues = 512

  /// Throws the error for the operator. It quotes no value.
  init(_ content: [UInt8]) throws(ErrorResponse) {
    guard let object = JSONReader.read(content, values: Self.mostValues), object.isObject else {
      throw ErrorResponse(
        .malformedRequest, "The content is not a JSON object with \(Self.members), or has too many values.")
    }
    guard object.repeatedNames.isEmpty else {
      throw ErrorResponse(.invalidParameter, "The content repeats a member.")
    }
    for member in object.members { try set(member.name, to: member.value) }
    guard client == nil || !hasCredential else {
      throw ErrorResponse(.invalidParameter, "client stands for a credential, so leave the credential out.")
    }
  }

  private mutating func set(_ name: ByteString, to value: JSONValue) throws(ErrorResponse) {
    switch name {
    case "method":
      method = try Self.text(value, name)
      guard Self.methods.contains(method) else {
        throw ErrorResponse(.invalidParameter, "method must be one of \(Self.list(Self.methods)).")
      }
    case "path":
      path = try Self.text(value, name)
      guard path.bytes.first == UInt8(ascii: "/"), path.bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else {
        throw ErrorResponse(.invalidParameter, "path must begin with / and have visible ASCII characters only.")
      }
    case "credential": credential = try Self.text(value, name)
    case "client": client = try Self.text(value, name)
    case "origin": origin = try Self.text(value, name)
    case "certificateNames": certificateNames = try Self.names(value)
    default:
      throw ErrorResponse(
        .invalidParameter, "The member \(Printable.quote(name, limit: 40)) is unknown. Write \(Self.members).")
    }
  }

  /// Returns a string that is safe as the value of a field line: without control characters, it cannot end the line.
  private static func text(_ value: JSONValue, _ name: ByteString) throws(ErrorResponse) -> ByteString {
    guard case .string(let text) = value, text.bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
      throw ErrorResponse(.invalidParameter, "\(name) must be a string without control characters.")
    }
    return text
  }

  /// Returns the names that the server uses of a certificate with these names: none if there are too many, or if one is
  /// malformed, as ``ClientCertificate`` has it.
  private static func names(_ value: JSONValue) throws(ErrorResponse) -> [SubjectName] {
    guard case .array(let elements) = value else { throw notNames }
    var names: [SubjectName?] = []
    for element in elements {
      guard case .string(let text) = element else { throw notNames }
      names.append(text.isASCII ? SubjectName(ofCertificate: text.text) : nil)
    }
    let usable = names.compactMap(\.self)
    return usable.count == names.count && names.count <= ClientCertificate.mostNames ? usable : []
  }

  private static let notNames = ErrorResponse(
    .invalidParameter,
    "certificateNames must be an array of alternative names of a certificate, such as spiffe://example.com/partner.")

  private static func list(_ values: [ByteString]) -> String { values.map(\.text).joined(separator: ", ") }

  var hasCredential: Bool { credential != nil || certificate != nil }

  var certificate: PresentedCredentials.Credential? { certificateNames.map { .certificate($0) } }

  var head: [UInt8] { head(method, [credential.map { ("Authorization", "Bearer \($0)") }, originLine]) }

  /// The head of the preflight request that a browser sends before it.
  var preflightHead: [UInt8] { head("OPTIONS", [originLine, ("Access-Control-Request-Method", method)]) }

  private typealias FieldLine = (name: StaticString, value: ByteString)

  private var originLine: FieldLine? { origin.map { ("Origin", $0) } }

  private func head(_ method: ByteString, _ fields: [FieldLine?]) -> [UInt8] {
    // Every listener serves the name localhost.
    var head = method.bytes + " ".utf8 + path.bytes + " HTTP/1.1\r\nHost: localhost\r\n".utf8
    for field in fields.compactMap(\.self) {
      head += "\(field.name): ".utf8 + field.value.bytes + "\r\n".utf8
    }
    return head + "\r\n".utf8
  }
}
