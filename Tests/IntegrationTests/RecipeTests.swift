import JSON
import TestSupport
import Testing

/// The recipes of `docs/clients.md` and `README.md`, unchanged, against a server.
///
/// Each test adds calls of the recipe: for a first token, for the same token before `refreshAfter`, for a refresh while
/// the server is down, and for the error after the token's expiry.
@Suite("The documented recipes")
struct RecipeTests {
  private static let app = "https://app.example.com"

  @Test(
    "configure MusicKit with a token in a web page, and report a refusal",
    arguments: [
      ("README.md", "A recipe: a web page with MusicKit JS"), ("docs/clients.md", "A web page with MusicKit JS"),
    ])
  func page(document: String, heading: String) throws {
    let ground = try AccessGround("", ["SERVER_PAGE": "true"])
    let recipe = try Self.page(in: document, under: heading, of: ground.server)
    func load(_ recipe: String) -> String {
      """
      const configured = new Promise((resolve) => {
        window.MusicKit = { configure: async (given) => { resolve(given); return new EventTarget(); } };
      });
      const failed = new Promise((resolve) => {
        addEventListener("unhandledrejection", (event) => resolve(event.reason));
        addEventListener("error", (event) => resolve(event.error));
      });
      const warnings = [];
      console.warn = (words) => warnings.push(words);
      const script = document.createElement("script");
      script.type = "module";
      script.textContent = `\(recipe)`;
      document.head.append(script);

      """
    }
    let good = try Browser.shared().run(at: Self.app, "\(load(recipe))return await configured;")
    #expect(try CompactToken(try #require(good["developerToken"]?.string)).claims["origin"]?.strings == [Self.app])
    #expect(good["app"]?["name"]?.string == "My App")
    let wrong = recipe.replacing("DeveloperTokens()", with: "DeveloperTokens({ headers: { 'X-API-Key': 'wrong' } })")
    let bad = try Browser.shared().run(
      at: Self.app, "\(load(wrong))return { message: (await failed).message, warnings };")
    let message = try #require(bad["message"]?.string)
    #expect(message.contains("(401 invalid_credentials, request "), "\(bad)")
    #expect(bad["warnings"]?.strings == (recipe.contains("subscribe") ? [message] : []))
  }

  @Test("keep a valid token in Python when a refresh fails")
  func python() throws {
    let ground = try AccessGround()
    let recipe = try Self.block("python", in: "docs/clients.md", under: "A server")
      .replacing("http://127.0.0.1:8080", with: ground.server.url)
    let calls = """

      import signal
      def attempt():
          try:
              return developer_token()
          except Exception as error:
              return str(error)
      os.environ["MUSICKIT_API_KEY"] = "wrong"
      print("refused", attempt())
      os.environ["MUSICKIT_API_KEY"] = "\(AccessGround.android)"
      first = attempt()
      print("first", first)
      asked = []
      opened = urllib.request.urlopen
      def down(*arguments, **options):
          asked.append(1)
          raise urllib.error.URLError("the server is down")
      urllib.request.urlopen = down
      print("kept", attempt() == first, len(asked))
      expiry, due = held["expiresAt"], held["refreshAfter"] + 1
      time.time = lambda: due
      print("due", attempt() == first, len(asked), attempt() == first, len(asked))
      time.time = lambda: expiry + 1
      print("expired", attempt())
      urllib.request.urlopen = opened
      print("again", attempt() == first)
      """
    let result = try run("python3", ["-c", recipe + calls])
    #expect(result.status == 0, "\(result.stderr)")
    let lines = try Self.lines(of: result)
    #expect(lines["refused"]?.contains("invalid_credentials") == true)
    _ = try CompactToken(try #require(lines["first"]))
    #expect(lines["kept"] == "True 0")
    #expect(lines["due"] == "True 1 True 1")
    #expect(result.stderr.contains("the server is down"))
    #expect(lines["expired"]?.contains("the server is down") == true)
    #expect(lines["again"] == "True")
  }

  @Test("keep a valid token in Swift when a refresh fails")
  func swift() throws {
    let ground = try AccessGround()
    let recipe = try Self.block("swift", in: "docs/clients.md", under: "An iOS app")
      .replacing("https://tokens.example.com", with: ground.server.url)
    let program = """
      import Foundation
      import FoundationNetworking
      \(recipe)
      @main struct Calls {
        static func attempt(_ tokens: DeveloperTokens, now: Double = Date().timeIntervalSince1970) async -> String {
          do { return try await tokens.token(now: now) } catch { return "\\(error)" }
        }
        static func main() async {
          let stranger = DeveloperTokens { "wrong" }
          print("refused", await attempt(stranger))
          let tokens = DeveloperTokens { "\(AccessGround.android)" }
          let first = await attempt(tokens)
          print("first", first)
          fflush(nil)
          _ = readLine()
          print("kept", await attempt(tokens) == first)
          let now = Date().timeIntervalSince1970
          print("due", await attempt(tokens, now: now + 3700) == first, await attempt(tokens, now: now + 7000) == first)
          let expired = await attempt(tokens, now: now + 7201)
          print("expired", !expired.hasPrefix("ey"))
        }
      }
      """
    let directory = try TemporaryDirectory()
    let executable = directory.path(of: "calls")
    let compiled = try run(
      "swiftc",
      ["-parse-as-library", "-swift-version", "6", "-o", executable, try directory.write(program, to: "calls.swift")])
    #expect(compiled.status == 0, "\(compiled.stdout)\(compiled.stderr)")
    let process = try ChildProcess(executable, [], holdsInput: true)
    var lines: [String: String] = [:]
    while let line = try process.line() {
      let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
      lines[parts[0]] = parts.last
      if parts[0] == "first" {
        ground.server.stop()
        process.send("\n")
      }
    }
    #expect(process.wait() == 0, "\(process.standardError)")
    #expect(lines["refused"]?.contains("invalid_credentials") == true, "\(lines)")
    _ = try CompactToken(try #require(lines["first"]))
    #expect(lines["kept"] == "true")
    #expect(lines["due"] == "true true")
    #expect(lines["expired"] == "true")
  }

  @Test("use a token in a shell only if the request succeeds, and print the error otherwise")
  func shell() throws {
    let ground = try AccessGround()
    let home = try TemporaryDirectory()
    let recipe = try Self.block("sh", in: "docs/clients.md", under: "A shell")
      .replacing("localhost:8080", with: ground.server.url)
      .replacing("https://api.music.apple.com", with: ground.catalog.emulator.url)
    func attempt(key: String) throws -> ProcessResult {
      try home.write("header = \"Authorization: Bearer \(key)\"\n", to: ".musickit-key")
      let environment = ["HOME": home.path, "PATH": "/usr/local/bin:/usr/bin:/bin", "NO_PROXY": "*"]
      return try run("sh", ["-c", recipe], environment: environment)
    }
    let good = try attempt(key: AccessGround.android)
    #expect(good.status == 0, "\(good.stderr)")
    #expect(good.stdout.hasPrefix("HTTP/1.1 200 "), "\(good.stdout)")
    let bad = try attempt(key: "wrong")
    #expect(bad.stdout.isEmpty)
    #expect(bad.stderr.contains("invalid_credentials"), "\(bad.stderr)")
  }

  /// The script of a page's recipe, with the address of a server.
  private static func page(in document: String, under heading: String, of server: RunningServer) throws -> String {
    let html = try block("html", in: document, under: heading)
    let script = html.split(separator: "<script type=\"module\">\n", maxSplits: 1).last?.split(separator: "</script>")
      .first
    return String(try #require(script)).replacing("https://tokens.example.com", with: server.url)
  }

  /// The only code block of a language in a section.
  private static func block(_ language: String, in document: String, under heading: String) throws -> String {
    let text = try TextFile.read("\(Repository.path)/\(document)")
    let section = try #require(text.split(separator: "\n## ").first { $0.hasPrefix("\(heading)\n") })
    let blocks = section.split(separator: "```\(language)\n").dropFirst()
    #expect(blocks.count == 1, "\(document) has \(blocks.count) blocks of \(language) under \(heading).")
    return String(try #require(blocks.first?.split(separator: "```").first))
  }

  /// The output of a script, by the first word of each line.
  private static func lines(of result: ProcessResult) throws -> [String: String] {
    let pairs = result.stdout.split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1).map(String.init) }
    return Dictionary(pairs.map { ($0[0], $0.last ?? "") }) { $1 }
  }
}
