import Glibc
import JSON
import TestSupport

/// A running `musickit-token-server sandbox`: the emulated Apple Music for a server under test.
final class Emulator {
  /// The base URL.
  let url: String
  /// The file with the emulator's certificate, if the emulator uses TLS.
  let certificateFile: String?
  private let process: ChildProcess

  /// Starts an emulator that accepts tokens of the ground's key, and waits until the emulator accepts connections.
  ///
  /// - Parameter isSecure: Whether the emulator uses TLS, with the host name localhost.
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

  /// The settings of a server with this emulator as its upstream.
  var settings: [String: String] {
    ["CATALOG_UPSTREAM": url].merging(certificateFile.map { ["CATALOG_CA_FILE": $0] } ?? [:]) { $1 }
  }

  /// Ends the emulator.
  func stop() {
    process.signal(SIGTERM)
    process.wait()
  }

  /// A request by curl, directly to the emulator.
  func request(_ target: String, _ options: String...) throws -> ParsedResponse {
    try ParsedResponse(curl: trust + options + ["\(url)\(target)"])
  }

  private var trust: [String] { certificateFile.map { ["--cacert", $0] } ?? [] }

  // MARK: Received requests

  /// The received requests, at most the last 256, without what a server asks by itself: some seconds after its start, it
  /// tries its key at `/v1/test`, unless it has forwarded a request by then, which depends on the machine.
  func requests() throws -> [EmulatedRequest] { try allRequests().filter { !$0.isOwnTest } }

  /// The received requests, also those that no caller has caused.
  func allRequests() throws -> [EmulatedRequest] { try Self.requests(of: log()) }

  /// The number of received requests, without those that a server sends by itself.
  func count() throws -> Int { try Self.count(of: log()) }

  /// The number in a log of the emulator.
  static func count(of log: JSONValue) throws -> Int {
    try (log["count"]?.integer ?? 0) - requests(of: log).count { $0.isOwnTest }
  }

  private static func requests(of log: JSONValue) throws -> [EmulatedRequest] {
    guard case .array(let elements)? = log["requests"] else { throw TestFailure("The emulator has no log.") }
    return try elements.map { try EmulatedRequest($0) }
  }

  /// Waits until the emulator has received this number of requests, answered or not.
  func waitForRequests(_ count: Int) throws {
    try eventually("\(count) requests reach the emulator") { try self.count() >= count }
  }

  /// Clears the log of received requests.
  func forget() throws {
    guard try request("/sandbox/log", "-X", "DELETE").status == 204 else { throw TestFailure("It does not forget.") }
  }

  private func log() throws -> JSONValue {
    guard let log = try request("/sandbox/log").json else { throw TestFailure("The emulator has no log.") }
    return log
  }

  // MARK: Faults

  /// Makes later requests fail if their path has this prefix, which should not be one of `/v1/test`.
  ///
  /// - Parameter count: The number of requests that fail; nil for all.
  func fail(_ fault: String, path: String = "/v1/catalog/", count: Int? = nil) throws {
    let order = Self.order(fault, path: path, count: count)
    guard try request("/sandbox/faults", "-X", "PUT", "--data-binary", order).status == 200 else {
      throw TestFailure("The emulator knows no such fault: \(order)")
    }
  }

  /// What `/sandbox/faults` takes.
  static func order(_ fault: String, path: String, count: Int?) -> String {
    let count = count.map { ",\"count\":\($0)" } ?? ""
    return "{\"faults\":[{\"fault\":\"\(fault)\",\"path\":\"\(path)\"\(count)}]}"
  }
}

extension Emulator {
  /// Ends all faults, and the delays in progress.
  func release() throws {
    guard try request("/sandbox/faults", "-X", "DELETE").status < 300 else { throw TestFailure("The faults remain.") }
  }
}

/// A request as the emulator received it.
struct EmulatedRequest {
  let method: String
  let path: String
  let query: String?
  /// Whether all field names are in lower case, as in HTTP/2 (RFC 9113 §8.2.1).
  let hasLowercaseNames: Bool
  let contentLength: Int
  /// The emulator's verdict on the developer token.
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

  /// The values of a field, joined as a list; nil without such a field.
  subscript(name: String) -> String? {
    let values = fields.filter { $0.name == name.lowercased() }.map(\.value)
    return values.isEmpty ? nil : values.joined(separator: ", ")
  }

  /// Whether a server has sent it by itself, and forwards it for no caller (RFC 9110 §7.6.3).
  var isOwnTest: Bool { path == "/v1/test" && self["via"] == nil }

  /// The names of the fields, sorted.
  var names: [String] { fields.map(\.name).sorted() }
}
