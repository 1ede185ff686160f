import Bytes
import Glibc
import JSON
import TestSupport

/// The prerequisites of a server with a catalog: an upstream of the test, and the settings for this upstream.
struct UpstreamGround {
  let ground: Ground
  /// The certificate of upstreams other than the emulator. A restarted upstream has the same certificate.
  let certificate: (file: String, keyFile: String)

  init() throws {
    ground = try Ground()
    certificate = try ground.certificate()
  }

  // MARK: Servers

  /// Starts a server with this upstream, whose catalog is open to every caller.
  func serve(_ upstream: String, _ more: [String: String] = [:]) throws -> RunningServer {
    let settings = [
      "CATALOG_UPSTREAM": upstream, "CATALOG_ME": "true",
      "ACCESS_ANONYMOUS": "{ token: true, catalog: true, me: true }",
      "SERVER_LOOPS": "2",
    ]
    return try ground.serve(settings.merging(more) { $1 })
  }

  /// Starts a server with an upstream that has a certificate of this ground.
  func serve(_ upstream: RunningServer, _ more: [String: String] = [:]) throws -> RunningServer {
    guard upstream.url.hasPrefix("https:") else { return try serve(upstream.url, more) }
    return try serve(upstream.url, ["CATALOG_CA_FILE": ground.certificateFile].merging(more) { $1 })
  }

  // MARK: Upstreams

  /// Starts the emulator, which accepts the tokens of this ground's key.
  func sandbox(_ arguments: String..., port: UInt16 = 0) throws -> RunningServer {
    let standard = ["sandbox", "--port", "\(port)", "--key-file", ground.keyFile, "--certificate-file"]
    return try RunningServer(
      Program.path, standard + [ground.certificateFile, "--team-id", Ground.teamID] + arguments, environment: [:],
      hasAdmin: false)
  }

  /// Starts `upstream.py`.
  ///
  /// - Parameter streams: The limit of streams on each HTTP/2 connection; nil for HTTP/1.1 without TLS.
  func script(streams: Int? = nil, port: UInt16 = 0) throws -> RunningServer {
    var arguments = [Repository.script("upstream.py"), "\(port)"]
    if let streams { arguments += [certificate.file, certificate.keyFile, "\(streams)"] }
    return try RunningServer(Repository.python, arguments, environment: ["PYTHONDONTWRITEBYTECODE": "1"])
  }

  /// A port outside the range of ephemeral ports, so that no client takes the port between two servers.
  static var fixedPort: UInt16 { UInt16.random(in: 20_000..<30_000) }

  /// Starts `catalog_load.py`.
  func load(_ server: RunningServer, _ count: Int, _ mode: String? = nil) throws -> ChildProcess {
    let arguments = [Repository.script("catalog_load.py"), "\(server.port)", "\(count)"] + (mode.map { [$0] } ?? [])
    return try ChildProcess(Repository.python, arguments, holdsInput: true)
  }

  /// Starts `catalog_load.py` with an API key, from an address of this machine.
  func load(_ server: RunningServer, _ count: Int, key: String, from address: String) throws -> ChildProcess {
    let arguments = [Repository.script("catalog_load.py"), "\(server.port)", "\(count)", "once", key, address]
    return try ChildProcess(Repository.python, arguments, holdsInput: true)
  }
}

extension RunningServer {
  // MARK: The emulator

  /// Sets a fault of the catalog at the emulator, for the next `count` requests or for all.
  func fault(_ fault: String, count: Int? = nil) throws {
    let order = Emulator.order(fault, path: "/v1/catalog/", count: count)
    _ = try request("/sandbox/faults", "-X", "PUT", "-d", order, "--insecure")
  }

  /// Removes all faults.
  func endFaults() throws { _ = try request("/sandbox/faults", "-X", "DELETE", "--insecure") }

  /// The number of requests that the emulator has received, without those that a server sends by itself.
  func requestsSeen() throws -> Int {
    try Emulator.count(of: request("/sandbox/log", "--insecure").json ?? .null)
  }

  /// The number of requests that the emulator has received, also of those that no caller has caused.
  func allRequestsSeen() throws -> Int {
    try request("/sandbox/log", "--insecure").json?["count"]?.integer ?? 0
  }

  // MARK: upstream.py

  /// Sets the behaviour of `upstream.py` for all later requests.
  func behave(_ behaviour: String) throws { _ = try admin("/?do=\(behaviour)", "-X", "PUT") }

  /// Lets `upstream.py` answer the requests in flight.
  func release() throws { _ = try admin("/", "-X", "POST") }

  /// A counter of `upstream.py`.
  func count(_ name: String) throws -> Int { try admin("/").json?[name]?.integer ?? 0 }
}

extension ChildProcess {
  /// The last report of `catalog_load.py`.
  func loadReport() throws -> (statuses: [String: Int], wrong: JSONValue?) {
    var last: String?
    while let line = try line() { last = line }
    guard let report = last.flatMap({ JSONReader.read(Array($0.utf8)) }), report.isObject else {
      throw TestFailure("The load ended without a report: \(standardError)")
    }
    let statuses = report["statuses"]?.members.map { ($0.name.text, $0.value.integer ?? 0) } ?? []
    return (Dictionary(uniqueKeysWithValues: statuses), report["wrong"])
  }
}
