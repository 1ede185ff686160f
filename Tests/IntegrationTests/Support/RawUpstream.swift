import JSON
import TestSupport

/// An upstream that responses with whatever bytes a test has written down, and shows what it was sent.
final class RawUpstream {
  /// Its base URL.
  let url: String
  let process: ChildProcess
  private let folder: TemporaryDirectory

  /// Starts one.
  ///
  /// - Parameter answers: By the last segment of the path.
  init(_ responses: [String: String] = [:]) throws {
    folder = try TemporaryDirectory()
    for (name, bytes) in responses { try folder.write(bytes, to: name) }
    process = try ChildProcess(
      Repository.python, [Repository.script("raw_upstream.py"), folder.path], holdsInput: true)
    guard let port = try process.line().flatMap({ UInt16($0) }) else {
      throw TestFailure("The upstream has not started: \(process.standardError)")
    }
    url = "http://127.0.0.1:\(port)"
  }

  /// What it has to say next: a request with its content, or how far it has come.
  func next() throws -> JSONValue {
    guard let line = try process.line(), let value = JSONReader.read(Array(line.utf8)) else {
      throw TestFailure("The upstream has ended: \(process.standardError)")
    }
    return value
  }

  /// Has it answer so from now on.
  func respond(_ name: String, with bytes: String) throws { try folder.write(bytes, to: name) }

  /// A server that takes it for Apple Music.
  func serve(_ ground: Ground, _ settings: [String: String] = [:], _ flags: [String] = []) throws -> RunningServer {
    let own = ["CATALOG_UPSTREAM": url, "ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]
    return try ground.serve(own.merging(settings) { $1 }, flags)
  }
}

extension JSONValue {
  /// The value of a field of a request that the upstream was sent; nil if there is none.
  func field(_ name: String) -> String? {
    guard case .array(let pairs)? = self["fields"] else { return nil }
    return pairs.compactMap(\.strings).first { $0.first == name }?.last
  }

  var elements: [JSONValue] {
    if case .array(let elements) = self { elements } else { [] }
  }
}
