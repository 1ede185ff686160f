import JSON
import TestSupport

/// Many peers of one kind, which make a server hold as much as they can. They go with the last reference.
final class HostilePeers {
  /// How many the server keeps.
  let open: Int
  /// How many it has closed, or answered with 503.
  let refused: Int
  private let process: ChildProcess

  /// Lets `count` of them, from so many addresses, at a server, and returns when all have sent what they send.
  init(
    _ kind: String, _ count: Int, at server: RunningServer, path: String = "/token", addresses: Int = 1
  ) throws {
    process = try ChildProcess(
      Repository.python,
      [Repository.script("hostile_peers.py"), "\(server.port)", kind, "\(count)", path, "\(addresses)"],
      holdsInput: true)
    guard let line = try process.line(), let value = JSONReader.read(Array(line.utf8)),
      let open = value["open"]?.integer, let refused = value["refused"]?.integer
    else { throw TestFailure("The peers have ended: \(process.standardError)") }
    self.open = open
    self.refused = refused
  }

  /// Has them all go.
  func leave() {
    process.closeInput()
    _ = process.wait()
  }
}

/// An upstream whose answers are long, without end, or never come.
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
