import Bytes
import JSON
import TestSupport
import Testing

/// The Fetch standard as a browser enforces it. ``CrossOriginTests`` checks the response fields that control the
/// browser.
@Suite("A browser page")
struct BrowserTests {
  private static let app = "https://app.example.com"
  private static let local = "http://localhost"
  private static let allowed = ["ACCESS_ANONYMOUS": "{ token: true, origins: ['\(app)', '\(local)'] }"]

  private static func serve(_ more: [String: String] = [:]) throws -> RunningServer {
    try Ground().serve(allowed.merging(more) { $1 })
  }

  @Test("of an allowed origin can read a bound token and the exposed fields", arguments: [app, local])
  func token(origin: String) throws {
    let server = try Self.serve()
    let view = try Browser.shared().ask("\(server.url)/token", from: origin)
    #expect(view.type == "cors" && view.status == 200, "\(view)")
    let token = try CompactToken(try #require(view.json?["token"]?.string))
    #expect(token.claims["origin"]?.strings == [origin])
    #expect(view["X-Request-ID"]?.isEmpty == false)
    #expect(view["X-Content-Type-Options"] == nil, "nobody needs it")
  }

  @Test(
    "of any other origin can read nothing",
    arguments: [
      "https://evil.example", "https://app.example.com.evil.example", "https://www.app.example.com",
      "http://app.example.com", "http://localhost.evil.example", "http://127.0.0.1", "https://localhost",
    ])
  func foreign(origin: String) throws {
    let server = try Self.serve()
    let script = """
      const url = "\(server.url)/token";
      const json = { "Content-Type": "application/json" };
      return [
        await ask(url), await ask(url, { method: "POST" }), await ask(url, { method: "POST", headers: json }),
        await ask(url, { mode: "no-cors" }),
      ];
      """
    guard case .array(let views) = try Browser.shared().run(at: origin, script) else { return }
    #expect(views.dropLast().map { PageView($0).error } == ["TypeError", "TypeError", "TypeError"])
    let opaque = PageView(views[3])
    #expect(opaque.type == "opaque" && opaque.status == 0 && opaque.body.isEmpty)
  }

  @Test("in a sandboxed frame of an allowed page can read nothing")
  func sandboxed() throws {
    let server = try Self.serve()
    let script = """
      const response = new Promise((resolve) => addEventListener("message", (event) => resolve(event.data)));
      const frame = document.createElement("iframe");
      frame.sandbox = "allow-scripts";
      frame.srcdoc = `<script>
        fetch("\(server.url)/token")
          .then((response) => response.text(), (error) => error.name)
          .then((text) => parent.postMessage(origin + " " + text, "*"));
        <\\/script>`;
      document.body.append(frame);
      return await response;
      """
    #expect(try Browser.shared().run(at: Self.app, script) == .string("null TypeError"))
  }

  @Test(
    "of an allowed origin can read errors",
    arguments: [
      ("/token?ttl=1", "{}", 400, "invalid_parameter"), ("/nowhere", "{}", 404, "not_found"),
      ("/token?origin=https://evil.example", "{}", 403, "origin_not_allowed"),
      ("/v1/catalog/us/songs/1", "{}", 404, "not_permitted"),
      ("/token", "{ method: 'POST', body: 'x'.repeat(999) }", 413, "content_too_large"),
      ("/token", "{ method: 'POST', body: '[]' }", 400, "malformed_request"),
    ] as [(String, String, Int, String)])
  func errors(path: String, options: String, status: Int, code: String) throws {
    let server = try Self.serve(["SERVER_LIMITS_BODY_BYTES": "256"])
    let view = try Browser.shared().ask("\(server.url)\(path)", from: Self.app, options)
    #expect(view.status == status, "\(view)")
    guard case .array(let errors)? = view.json?["errors"] else {
      Issue.record("no errors: \(view)")
      return
    }
    #expect(errors.first?["code"]?.string == code)
    #expect(errors.first?["id"]?.string == view["X-Request-ID"])
  }

  @Test("of an allowed origin can send JSON after a preflight")
  func preflight() throws {
    let server = try Self.serve()
    let view = try Browser.shared().ask(
      "\(server.url)/token", from: Self.app,
      "{ method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ ttl: 3600 }) }")
    #expect(view.status == 200, "\(view)")
    #expect(view.json?["token"]?.string != nil)
  }

  @Test("can send fields that the server does not know, as programs that monitor pages do")
  func strangeFields() throws {
    let server = try Self.serve()
    let options = "{ headers: { 'X-Strange': '1', baggage: 'k=v', 'sentry-trace': '0-1' } }"
    #expect(try Browser.shared().ask("\(server.url)/token", from: Self.app, options).status == 200)
  }

  @Test(
    "cannot send a method or credential that the preflight does not allow",
    arguments: ["{ method: 'DELETE' }", "{ credentials: 'include' }"])
  func notNamed(options: String) throws {
    let server = try Self.serve()
    #expect(try Browser.shared().ask("\(server.url)/token", from: Self.app, options).error == "TypeError")
  }
}
