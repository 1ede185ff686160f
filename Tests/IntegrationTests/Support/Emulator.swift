import Glibc
import JSON
import TestSupport

/// A running `musickit-token-server sandbox`: Apple Music, for a server under test.
final class Emulator {
  /// Its base URL.
  let url: String
  /// The file with its certificate, if it speaks TLS.
  let certificateFile: String?
  private let process: ChildProcess

  /// Starts one that takes tokens of the ground's key, and waits until it accepts connections.
  ///
  /// - Parameter isSecure: Whether it speaks TLS, for which it goes by the name of localhost.
  init(_ ground: Ground, _ arguments: [String] = [], isSecure: Bool = false) throws {
    let file = isSecure ? ground.directory.path(of: "sandbox.pem") : nil
    process = try ChildProcess(
      Program.path,
      ["sandbox", "--port", "0", "--key-file", ground.keyFile, "--team-id", Ground.teamID] + arguments
        + (file.map { ["--tls", "--certificate-file", $0] } ?? []),
      environment: [:])
    guard let line = try process.line(), line.hasPrefix("Listening on ") else {
      throw TestFailure("The emulator ended with status \(process.wait()): \(process.standardError)")
    }
    let address = String(line.dropFirst(13))
    url = isSecure ? address.replacing("127.0.0.1", with: "localhost") : address
    certificateFile = file
  }

  /// The settings of a server that takes it for Apple Music.
  var settings: [String: String] {
    ["CATALOG_UPSTREAM": url].merging(certificateFile.map { ["CATALOG_CA_FILE": $0] } ?? [:]) { $1 }
  }

  /// Ends it.
  func stop() {
    process.signal(SIGTERM)
    process.wait()
  }

  /// A request by curl, straight to it.
  func request(_ target: String, _ options: String...) throws -> ParsedResponse {
    try ParsedResponse(curl: trust + options + ["\(url)\(target)"])
  }

  private var trust: [String] { certificateFile.map { ["--cacert", $0] } ?? [] }

  // MARK: What has reached it

  /// The requests that have reached it, the last 256 at most.
  func requests() throws -> [EmulatedRequest] {
    guard case .array(let elements)? = try log()["requests"] else { throw TestFailure("The emulator has no log.") }
    return try elements.map { try EmulatedRequest($0) }
  }

  /// How many requests have reached it.
  func count() throws -> Int { try log()["count"]?.integer ?? 0 }

  /// Waits until so many requests have reached it, answered or not.
  func waitForRequests(_ count: Int) throws {
    try eventually("\(count) requests reach the emulator") { try self.count() >= count }
  }

  /// Forgets them.
  func forget() throws {
    guard try request("/sandbox/log", "-X", "DELETE").status == 204 else { throw TestFailure("It does not forget.") }
  }

  private func log() throws -> JSONValue {
    guard let log = try request("/sandbox/log").json else { throw TestFailure("The emulator has no log.") }
    return log
  }

  // MARK: What goes wrong

  /// Has the requests from now on go wrong, those whose path begins so.
  ///
  /// - Parameter count: How many; nil for all.
  func fail(_ fault: String, path: String = "/v1/", count: Int? = nil) throws {
    let count = count.map { ",\"count\":\($0)" } ?? ""
    let order = "{\"faults\":[{\"fault\":\"\(fault)\",\"path\":\"\(path)\"\(count)}]}"
    guard try request("/sandbox/faults", "-X", "PUT", "--data-binary", order).status == 200 else {
      throw TestFailure("The emulator knows no such fault: \(order)")
    }
  }
}

/// A request as it reached the emulator.
struct EmulatedRequest {
  let method: String
  let path: String
  let query: String?
  /// Whether its field names were all in lower case, as those of HTTP/2 are (RFC 9113 §8.2.1).
  let hasLowercaseNames: Bool
  let contentLength: Int
  /// What the emulator thinks of the developer token.
  let developerToken: String
  let status: Int
  let fields: [(name: String, value: String)]

  init(_ value: JSONValue) throws {
    guard let method = value["method"]?.string, let path = value["path"]?.string,
      let contentLength = value["contentLength"]?.integer,
      let developerToken = value["developerToken"]?.string, let status = value["status"]?.integer,
      case .array(let fields)? = value["fields"]
    else { throw TestFailure("This is no request of the emulator's log: \(value)") }
    (self.method, self.path, self.contentLength) = (method, path, contentLength)
    (self.developerToken, self.status) = (developerToken, status)
    query = value["query"]?.string
    hasLowercaseNames = fields.compactMap { $0["name"]?.string }.allSatisfy { $0 == $0.lowercased() }
    self.fields = fields.map { ($0["name"]?.string?.lowercased() ?? "", $0["value"]?.string ?? "") }
  }

  /// The values of a field, joined as a list; nil if there is none.
  subscript(name: String) -> String? {
    let values = fields.filter { $0.name == name.lowercased() }.map(\.value)
    return values.isEmpty ? nil : values.joined(separator: ", ")
  }

  /// The names of its fields, sorted.
  var names: [String] { fields.map(\.name).sorted() }
}
