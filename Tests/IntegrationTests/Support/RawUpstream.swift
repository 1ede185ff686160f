import JSON
import TestSupport

/// An upstream that answers with the bytes of a test, and shows the requests that it received.
final class RawUpstream {
  /// The base URL.
  let url: String
  let process: ChildProcess
  private let folder: TemporaryDirectory

  /// Starts an upstream.
  ///
  /// - Parameter responses: The responses, by the last segment of the path.
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

  /// The next report of the upstream: a request with its content, or the progress of a transfer.
  func next() throws -> JSONValue {
    guard let line = try process.line(), let value = JSONReader.read(Array(line.utf8)) else {
      throw TestFailure("The upstream has ended: \(process.standardError)")
    }
    return value
  }

  /// Sets the response for all later requests.
  func respond(_ name: String, with bytes: String) throws { try folder.write(bytes, to: name) }

  /// A server with this upstream as Apple Music.
  func serve(_ ground: Ground, _ settings: [String: String] = [:], _ flags: [String] = []) throws -> RunningServer {
    let own = ["CATALOG_UPSTREAM": url, "ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]
    return try ground.serve(own.merging(settings) { $1 }, flags)
  }
}

extension JSONValue {
  /// The value of a field of a request that the upstream received; nil without such a field.
  func field(_ name: String) -> String? {
    guard case .array(let pairs)? = self["fields"] else { return nil }
    return pairs.compactMap(\.strings).first { $0.first == name }?.last
  }

  var elements: [JSONValue] {
    if case .array(let elements) = self { elements } else { [] }
  }
}
