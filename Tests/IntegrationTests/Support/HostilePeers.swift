import JSON
import TestSupport

/// Many peers of one kind, which make a server use as much memory as possible. They end with the last reference.
final class HostilePeers {
  /// The number of connections that the server keeps.
  let open: Int
  /// The number of connections that the server has closed or answered with 503.
  let refused: Int
  /// The beginning of what the server said to one that it refused.
  let refusal: String
  private let process: ChildProcess

  /// Connects `count` peers from `addresses` addresses to a server, and returns when all peers have sent their data.
  init(
    _ kind: String, _ count: Int, at server: RunningServer, path: String = "/token", addresses: Int = 1
  ) throws {
    process = try ChildProcess(
      Repository.python,
      [Repository.script("hostile_peers.py"), "\(server.port)", kind, "\(count)", path, "\(addresses)"],
      holdsInput: true)
    // An empty line is a step. The wait for each begins with the one before.
    var line = try process.line()
    while line == "" { line = try process.line() }
    guard let line, let value = JSONReader.read(Array(line.utf8)),
      let open = value["open"]?.integer, let refused = value["refused"]?.integer, let refusal = value["refusal"]?.string
    else { throw TestFailure("The peers have ended: \(process.standardError)") }
    self.open = open
    self.refused = refused
    self.refusal = refusal
  }

  /// Ends all peers.
  func leave() {
    process.closeInput()
    _ = process.wait()
  }
}

/// An upstream whose responses are long, endless, or never come.
final class HostileUpstream {
  let url: String
  private let process: ChildProcess

  init() throws {
    process = try ChildProcess(Repository.python, [Repository.script("hostile_upstream.py")])
    guard let port = try process.line().flatMap({ UInt16($0) }) else {
      throw TestFailure("The upstream has not started: \(process.standardError)")
    }
    url = "http://127.0.0.1:\(port)"
  }
}
