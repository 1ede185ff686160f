import JSON
import Locks
import TestSupport

/// Headless Chromium, in which a page of any origin asks our server: whatever a browser keeps from a page, is kept.
///
/// Every host name means this machine. On the ports of `http` and `https` there are empty pages, so that
/// `https://app.example.com` is the origin of one; on any other port is what listens there.
final class Browser: Sendable {
  private let process: Locked<ChildProcess>

  /// One for all tests, because starting it takes as long as a dozen of them. It ends with the process.
  static func shared() throws -> Browser { try start.get() }

  private static let start = Result { try Browser() }

  private init() throws {
    let process = try ChildProcess(Repository.python, [Repository.script("browser.py")], holdsInput: true)
    guard try process.line() == "ready" else {
      throw TestFailure("The browser has not started: \(process.standardError)")
    }
    self.process = Locked(process)
  }

  /// Opens a page, in a profile of its own, and runs the body of an asynchronous JavaScript function there.
  ///
  /// - Parameter page: A URL: an origin for an empty page, or what a server of ours answers.
  /// - Returns: What the script returned.
  /// - Throws: `TestFailure` if the page cannot be opened, or the script throws.
  func run(at page: String, _ script: String) throws -> JSONValue {
    try process.withLock { process in
      process.send("\(page)\n\(script)\0")
      guard let line = try process.line(), let response = JSONReader.read(Array(line.utf8)) else {
        throw TestFailure("The browser has ended: \(process.standardError)")
      }
      guard let value = response["value"] else { throw TestFailure(response["error"]?.string ?? line) }
      return value
    }
  }

  /// Calls `fetch` in a page and says what the page sees of it.
  ///
  /// - Parameter options: A JavaScript object, the second argument of `fetch`.
  func ask(_ url: String, from origin: String, _ options: String = "{}") throws -> PageView {
    PageView(try run(at: origin, "return await ask('\(url)', \(options))"))
  }
}

/// What a page sees of a request that it made.
struct PageView {
  /// The name of the error that `fetch` threw: `TypeError` if the page may not have the response, or there is none.
  let error: String?
  /// `basic` for the page's own origin, `cors` for another that lets it read, `opaque` if it may not look at all.
  let type: String?
  let status: Int?
  /// The content; empty if it may not be read.
  let body: String
  private let fields: JSONValue?

  init(_ value: JSONValue) {
    error = value["error"]?.string
    type = value["type"]?.string
    status = value["status"]?.integer
    body = value["body"]?.string ?? ""
    fields = value["fields"]
  }

  /// A field that the page may read; nil if it may not, or there is none.
  subscript(name: String) -> String? { fields?[name.lowercased()]?.string }

  var json: JSONValue? { JSONReader.read(Array(body.utf8)) }
}
