import Bytes
import JSON

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

  /// Creates an error with the sentence of its kind or another, and the parameter of the request that is wrong.
  init(_ kind: Kind, _ detail: String? = nil, parameter: String? = nil, allow: String? = nil, status: Int? = nil) {
    (self.kind, self.detail, self.parameter, self.allow) = (kind, detail, parameter, allow)
    self.status = status ?? kind.row["status"]?.integer ?? 500
  }

  static func invalid(_ parameter: String, _ detail: String) -> AppleError {
    AppleError(.invalidParameter, detail, parameter: parameter)
  }

  /// Creates the error of a parameter, in the singular or plural, whose value names nothing.
  static func noMatch(_ parameter: String, _ value: ByteString) -> AppleError {
    let word = parameter.hasSuffix("s") ? parameter.dropLast() : parameter[...]
    return .invalid(parameter, "No \(word) found matching '\(value.text.prefix(64))'")
  }

  /// Creates the error of a fault that demands a status.
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
