import Bytes
import Locks

/// A JSON value for output. Objects keep the order of their members.
indirect enum Document: Sendable, Equatable {
  case object([Member])
  case array([Document])
  case string(String)
  case number(Int)
  case bool(Bool)
  case null

  /// A member of an object.
  struct Member: Sendable, Equatable {
    let name: String
    let value: Document
  }

  /// Creates an object without the members that have no value.
  static func object(_ members: [(String, Document?)]) -> Document {
    .object(members.compactMap { name, value in value.map { Member(name: name, value: $0) } })
  }

  static func strings(_ texts: some Sequence<String>) -> Document {
    .array(texts.map { .string($0) })
  }

  /// The members of an object; empty for other values.
  var members: [Member] {
    guard case .object(let members) = self else { return [] }
    return members
  }

  /// The JSON text (RFC 8259), without white space.
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    append(to: &bytes)
    return bytes
  }

  private func append(to output: inout [UInt8]) {
    switch self {
    case .object(let members):
      output.append("{")
      for (index, member) in members.enumerated() {
        if index > 0 { output.append(",") }
        output.append(jsonString: member.name)
        output.append(":")
        member.value.append(to: &output)
      }
      output.append("}")
    case .array(let elements):
      output.append("[")
      for (index, element) in elements.enumerated() {
        if index > 0 { output.append(",") }
        element.append(to: &output)
      }
      output.append("]")
    case .string(let text): output.append(jsonString: text)
    case .number(let number): output.append(decimal: number)
    case .bool(let isTrue): isTrue ? output.append("true") : output.append("false")
    case .null: output.append("null")
    }
  }
}

extension Document: ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  init(stringLiteral value: String) { self = .string(value) }
  init(integerLiteral value: Int) { self = .number(value) }
  init(booleanLiteral value: Bool) { self = .bool(value) }
  init(arrayLiteral elements: Document...) { self = .array(elements) }
  init(dictionaryLiteral elements: (String, Document)...) {
    self = .object(elements.map { Member(name: $0.0, value: $0.1) })
  }
}

/// An error in Apple's documented form. Callers have reported the codes, the titles and most sentences; the rest follow
/// the same pattern.
struct AppleError: Error, Sendable, Equatable {
  let status: Int
  let code: String
  let title: String
  let detail: String
  var parameter: String?
  var allow: String?

  private init(
    _ status: Int, _ code: String, _ title: String, _ detail: String, parameter: String? = nil, allow: String? = nil
  ) {
    (self.status, self.code, self.title, self.detail) = (status, code, title, detail)
    (self.parameter, self.allow) = (parameter, allow)
  }

  // MARK: 400

  static func missingParameter(_ name: String, _ detail: String? = nil) -> AppleError {
    .init(400, "40003", "Missing Parameter", detail ?? "No \(name) supplied on the request", parameter: name)
  }

  static func unknownParameter(_ name: String) -> AppleError {
    .init(400, "40004", "Invalid Parameter", "Parameter '\(name)' is not allowed", parameter: name)
  }

  static func invalidParameter(_ name: String, _ detail: String) -> AppleError {
    .init(400, "40005", "Invalid Parameter Value", detail, parameter: name)
  }

  static func invalidPath(_ detail: String) -> AppleError {
    .init(400, "40008", "Invalid Path Value", detail)
  }

  static func invalidContent(_ detail: String) -> AppleError {
    .init(400, "40007", "Invalid Request Body", detail)
  }

  /// An error of the emulator only, which bounds its memory.
  static let libraryFull = AppleError(
    400, "40000", "Bad Request", "The library of the user is full: the emulator stores no more")

  // MARK: 403

  static let invalidUserToken = AppleError(403, "40300", "Forbidden", "Invalid authentication")

  static let noSubscription = AppleError(
    403, "40015", "Forbidden", "The user has no active subscription to Apple Music")

  // MARK: 404 and 405

  static let resourceNotFound = AppleError(
    404, "40400", "Resource Not Found", "Resource with requested id was not found")

  static func relationshipNotFound(_ name: String) -> AppleError {
    .init(404, "40403", "Resource Not Found", "No relationship found matching '\(name)'")
  }

  static func noRelatedResources(_ name: String) -> AppleError {
    .init(404, "40403", "No related resources", "No related resources found for \(name)")
  }

  static let pathNotFound = AppleError(404, "40400", "Resource Not Found", "There is no resource at this path")

  static func methodNotAllowed(_ allow: String) -> AppleError {
    .init(405, "40500", "Method Not Allowed", "The resource does not support this method", allow: allow)
  }

  // MARK: 5xx

  static func serverFault(_ status: Int) -> AppleError {
    switch status {
    case 503: .init(503, "50300", "Service Unavailable", "The service is currently unavailable")
    case 500: .init(500, "50001", "Upstream Service Error", "Unable to retrieve the resource")
    default: .init(status, "\(status)00", "Error", "A fault that the request or the settings demand")
    }
  }

  // MARK: -

  /// Returns the response.
  ///
  /// - Parameter id: The identifier of this occurrence.
  func respond(id: String) -> SandboxResponse {
    let error = Document.object([
      ("id", .string(id)), ("title", .string(title)), ("detail", .string(detail)), ("status", "\(status)"),
      ("code", .string(code)), ("source", parameter.map { ["parameter": .string($0)] }),
    ])
    var response = SandboxResponse.json(["errors": [error]], status: status)
    if let allow { response.fields.append(SandboxField("Allow", allow)) }
    return response
  }
}

/// A generator of error identifiers in Apple's form: 26 characters of base32 (RFC 4648 §6). They differ within a run,
/// and are the same in every run.
final class ErrorIdentifiers: Sendable {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")

  private let numbers = Locked(Numbers(seed: 0x4D75_7369_63))

  func next() -> String {
    numbers.withLock { numbers in String((0..<26).map { _ in Self.alphabet[numbers.next(below: 32)] }) }
  }
}
