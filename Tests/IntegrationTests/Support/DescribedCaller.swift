import JSON
import TestSupport
import Testing

/// A request that a test sends to the public listener and describes to the admin listener.
struct DescribedCaller: CustomTestStringConvertible {
  let testDescription: String
  var credential: String?
  var origin: String?
  var path: String
  var method: String
  /// The names of a client certificate.
  var names: [String]
  /// The ID of the client, which stands for its credential in the description.
  var client: String?

  init(
    _ label: String, _ credential: String? = nil, from origin: String? = nil, _ path: String = "/token",
    method: String = "GET", names: [String] = [], as client: String? = nil
  ) {
    (testDescription, self.credential, self.origin, self.path) = (label, credential, origin, path)
    (self.method, self.names, self.client) = (method, names, client)
  }

  /// The options of curl for the request.
  var options: [String] {
    (method == "HEAD" ? ["-I"] : ["-X", method]) + (credential.map { ["-H", "Authorization: Bearer \($0)"] } ?? [])
      + (origin.map { ["-H", "Origin: \($0)"] } ?? [])
  }

  /// The options of curl for the preflight request.
  var preflightOptions: [String] {
    ["-X", "OPTIONS", "-H", "Access-Control-Request-Method: \(method)"]
      + (origin.map { ["-H", "Origin: \($0)"] } ?? [])
  }

  /// The description for the admin listener.
  var json: String {
    let members =
      [("method", method), ("path", path)]
      + [("client", client), ("credential", client == nil ? credential : nil), ("origin", origin)].compactMap {
        name, value in
        value.map { (name, $0) }
      }
    let list = members.map { "\"\($0)\":\"\($1)\"" }
    let certificate =
      names.isEmpty ? [] : ["\"certificateNames\":[\(names.map { "\"\($0)\"" }.joined(separator: ","))]"]
    return "{\((list + certificate).joined(separator: ","))}"
  }

  /// Expects that an explanation agrees with the responses of the public listener.
  func expect(
    _ explanation: JSONValue?, agreesWith response: ParsedResponse, _ preflight: ParsedResponse,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let isRefused = response.status >= 400
    #expect(explanation?["allowed"] == .bool(!isRefused), "\(testDescription)", sourceLocation: sourceLocation)
    #expect(
      explanation?["status"]?.integer == (isRefused ? response.status : nil), "\(testDescription)",
      sourceLocation: sourceLocation)
    if method != "HEAD" {
      #expect(explanation?["code"]?.string == response.errorCode, "\(testDescription)", sourceLocation: sourceLocation)
      // A second may begin between the two.
      let details = [explanation?["detail"]?.string, response.errorDetail].map {
        $0?.replacing(/[0-9]+ seconds/, with: "n seconds")
      }
      #expect(details[0] == details[1], "\(testDescription)", sourceLocation: sourceLocation)
    }
    let cors = explanation?["cors"]
    #expect((cors == nil) == (origin == nil), "\(testDescription)", sourceLocation: sourceLocation)
    for (name, real) in [("response", response), ("preflight", preflight)] where origin != nil {
      let told = cors?[name]?.members.map { "\("\($0.name)".lowercased()): \($0.value.string ?? "")" }.sorted()
      #expect(told == real.crossOriginFields, "\(testDescription), \(name)", sourceLocation: sourceLocation)
    }
  }
}

extension ParsedResponse {
  /// The CORS fields, sorted. HTTP/2 has names in lower case.
  fileprivate var crossOriginFields: [String] {
    fields.filter { $0.name.lowercased().hasPrefix("access-control-") }.map { "\($0.name.lowercased()): \($0.value)" }
      .sorted()
  }
}

extension RunningServer {
  /// Asks the admin listener for the decision about a request.
  func explain(_ description: String, _ options: String...) throws -> ParsedResponse {
    let standard = ["-H", "Content-Type: application/json", "--data-binary", description]
    return try ParsedResponse(curl: standard + options + ["\(adminURL ?? "")/access/explain"])
  }
}
