import JSON
import Locks
import TestSupport

/// Headless Chromium, in which a page of any origin sends requests to a server under test. The browser enforces its
/// rules.
///
/// Every host name resolves to this machine. The ports of `http` and `https` have empty pages, so that
/// `https://app.example.com` is the origin of one. Any other port belongs to the program that listens there.
final class Browser: Sendable {
  private let process: Locked<ChildProcess>

  /// One browser for all tests, because its start takes as long as a dozen tests. The browser ends with the process.
  static func shared() throws -> Browser { try start.get() }

  private static let start = Result { try Browser() }

  private init() throws {
    let process = try ChildProcess(Repository.python, [Repository.script("browser.py")], holdsInput: true)
    guard try process.line() == "ready" else {
      throw TestFailure("The browser has not started: \(process.standardError)")
    }
    self.process = Locked(process)
  }

  /// Opens a page in its own profile and runs the body of an asynchronous JavaScript function there.
  ///
  /// - Parameters:
  ///   - page: A URL: an origin for an empty page, or a URL of a server under test.
  ///   - meanwhile: What the test does while the script runs.
  /// - Returns: The result of the script.
  /// - Throws: `TestFailure` if the page cannot be opened, or the script throws.
  func run(at page: String, _ script: String, meanwhile: () throws -> Void = {}) throws -> JSONValue {
    try process.withLock { process in
      process.send("\(page)\n\(script)\0")
      let other = Result { try meanwhile() }
      guard let line = try process.line(), let response = JSONReader.read(Array(line.utf8)) else {
        throw TestFailure("The browser has ended: \(process.standardError)")
      }
      guard let value = response["value"] else { throw TestFailure(response["error"]?.string ?? line) }
      // Later than the line, which must not remain for the next script.
      try other.get()
      return value
    }
  }

  /// Calls `fetch` in a page and returns what the page can read.
  ///
  /// - Parameter options: A JavaScript object, the second argument of `fetch`.
  func ask(_ url: String, from origin: String, _ options: String = "{}") throws -> PageView {
    PageView(try run(at: origin, "return await ask('\(url)', \(options))"))
  }
}

/// The part of a response that a page can read.
struct PageView {
  /// The name of the error of `fetch`: `TypeError` if there is no response or the page may not read it.
  let error: String?
  /// `basic` for the page's own origin, `cors` for another origin that permits the page, `opaque` for an unreadable
  /// response.
  let type: String?
  let status: Int?
  /// The content; empty if the page may not read it.
  let body: String
  private let fields: JSONValue?

  init(_ value: JSONValue) {
    error = value["error"]?.string
    type = value["type"]?.string
    status = value["status"]?.integer
    body = value["body"]?.string ?? ""
    fields = value["fields"]
  }

  /// A field that the page may read; nil if the field is absent or unreadable.
  subscript(name: String) -> String? { fields?[name.lowercased()]?.string }

  var json: JSONValue? { JSONReader.read(Array(body.utf8)) }
}
