import JSON
import TestSupport
import Testing

/// The recipes of `docs/clients.md`, which the page shows too, and that of `README.md`, unchanged, against a server.
///
/// Each test adds calls of the recipe: for a refusal, for a first token of concurrent callers, and, while the server is
/// down, for the same token before and after `refreshAfter`, and for the error after the token's expiry.
@Suite("The documented recipes")
struct RecipeTests {
  private static let app = "https://app.example.com"
  private static let key = AccessGround.android

  @Test(
    "configure MusicKit with a token in a web page, and report a refusal",
    arguments: ["README.md", "docs/recipes/page.html"])
  func page(file: String) throws {
    let ground = try AccessGround("", ["SERVER_MODULE": "true"])
    let recipe = try Self.script(in: file, of: ground.server)
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

  @Test("keep a valid token in Python when a refresh fails, and share one request")
  func python() throws {
    try Self.check(
      "recipe.py",
      """
      import signal, sys
      from concurrent.futures import ThreadPoolExecutor
      def attempt(*_):
          try:
              return developer_token()
          except Exception as error:
              return str(error)
      os.environ["MUSICKIT_API_KEY"] = "wrong"
      print("refused", attempt())
      os.environ["MUSICKIT_API_KEY"] = "\(Self.key)"
      with ThreadPoolExecutor(20) as pool:
          tokens = set(pool.map(attempt, range(20)))
      first = attempt()
      print("first", first, flush=True)
      sys.stdin.readline()
      print("kept", tokens == {first}, attempt() == first)
      expiry, due = held["expiresAt"], held["refreshAfter"] + 1
      time.time = lambda: due
      print("due", attempt() == first, attempt() == first)
      time.time = lambda: expiry + 1
      print("expired", attempt())
      """
    ) { source, _ in ("python3", ["-c", source]) }
  }

  @Test("keep a valid token in Go when a refresh fails, and share one request")
  func go() throws {
    let calls = """

      func main() {
      \tattempt := func(tokens *Tokens) string {
      \t\ttoken, err := tokens.Token()
      \t\tif err != nil {
      \t\t\treturn err.Error()
      \t\t}
      \t\treturn token
      \t}
      \tos.Setenv("MUSICKIT_API_KEY", "wrong")
      \tfmt.Println("refused", attempt(&Tokens{}))
      \tos.Setenv("MUSICKIT_API_KEY", "\(Self.key)")
      \tvar tokens Tokens
      \tvar all sync.WaitGroup
      \tfor index := 0; index < 20; index++ {
      \t\tall.Add(1)
      \t\tgo func() { attempt(&tokens); all.Done() }()
      \t}
      \tall.Wait()
      \tfirst := attempt(&tokens)
      \tfmt.Println("first", first)
      \tio.ReadAll(os.Stdin)
      \tfmt.Println("kept", attempt(&tokens) == first, true)
      \ttokens.held.RefreshAfter = 0
      \tfmt.Println("due", attempt(&tokens) == first, tokens.held.RefreshAfter > 0)
      \ttokens.held.RefreshAfter, tokens.held.ExpiresAt = 0, 0
      \tfmt.Println("expired", attempt(&tokens))
      }
      """
    try Self.check("recipe.go", calls) { source, directory in
      let file = try directory.write(source.replacing("package music\n", with: "package main\n"), to: "recipe.go")
      let program = directory.path(of: "recipe")
      let settings = ["GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOPROXY=off"]
      let build = try run("env", settings + ["go", "build", "-o", program, file])
      #expect(build.status == 0, "\(build.stderr)")
      return (program, [])
    }
  }

  @Test("keep a valid token in PHP when a refresh fails")
  func php() throws {
    try Self.check(
      "recipe.php",
      """
      function attempt(): string {
        try { return developer_token(); } catch (RuntimeException $error) { return $error->getMessage(); }
      }
      function change(array $members): void {
        file_put_contents(TOKEN_FILE, json_encode($members + json_decode(file_get_contents(TOKEN_FILE), true)));
      }
      putenv('MUSICKIT_API_KEY=wrong');
      echo 'refused ', attempt(), "\\n";
      putenv('MUSICKIT_API_KEY=\(Self.key)');
      $first = attempt();
      echo "first $first\\n";
      fgets(STDIN);
      printf("kept %s %s\\n", attempt() === $first ? 'true' : 'false', fileperms(TOKEN_FILE) === 0100600 ? 'true' : 'false');
      change(['refreshAfter' => 0]);
      printf("due %s %s\\n", attempt() === $first ? 'true' : 'false', attempt() === $first ? 'true' : 'false');
      change(['refreshAfter' => 0, 'expiresAt' => 0]);
      echo 'expired ', attempt(), "\\n";
      """
    ) { source, directory in
      let place = source.replacing("/var/lib/my-app", with: directory.path)
      return ("php", ["-d", "display_errors=stderr", try directory.write(place, to: "recipe.php")])
    }
  }

  @Test("keep a valid token in Swift when a refresh fails, and share one request; MusicKit takes it")
  func swift() throws {
    try Self.check(
      "recipe.swift",
      """
      @main struct Calls {
        static func attempt(_ tokens: DeveloperTokens, now: Double = Date().timeIntervalSince1970) async -> String {
          do { return try await tokens.token(now: now) } catch { return "\\(error)" }
        }
        static func main() async throws {
          print("refused", await attempt(DeveloperTokens { "wrong" }))
          let tokens = DeveloperTokens { "\(Self.key)" }
          await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { _ = await attempt(tokens) } }
          }
          let first = await attempt(tokens)
          print("first", first)
          fflush(nil)
          _ = readLine()
          print("kept", await attempt(tokens) == first, try await ServerTokenProvider(tokens).developerToken(options: []) == first)
          let now = Date().timeIntervalSince1970
          print("due", await attempt(tokens, now: now + 3700) == first, await attempt(tokens, now: now + 7000) == first)
          print("expired", await attempt(tokens, now: now + 7201).hasPrefix("ey") ? "a token" : "an error")
        }
      }
      """
    ) { source, directory in
      let stub = try directory.write(Self.musicKit, to: "MusicKit.swift")
      let provider = try TextFile.read("\(Repository.path)/docs/recipes/musickit.swift")
      let files = [
        try directory.write("import FoundationNetworking\n" + source, to: "recipe.swift"),
        try directory.write(provider, to: "provider.swift"),
      ]
      let (program, module) = (directory.path(of: "recipe"), directory.path(of: "libMusicKit.so"))
      let options = ["-parse-as-library", "-swift-version", "6"]
      let linked = ["-I", directory.path, "-L", directory.path, "-lMusicKit", "-Xlinker", "-rpath=\(directory.path)"]
      for arguments in [
        options + ["-emit-module", "-emit-library", "-module-name", "MusicKit"]
          + ["-emit-module-path", directory.path(of: "MusicKit.swiftmodule"), "-o", module, stub],
        options + linked + ["-o", program] + files,
      ] {
        let compiled = try run("swiftc", arguments)
        #expect(compiled.status == 0, "\(compiled.stdout)\(compiled.stderr)")
      }
      return (program, [])
    }
  }

  /// What MusicKit for Swift declares, as Apple documents it. There is no MusicKit for Linux.
  private static let musicKit = """
    public struct MusicTokenRequestOptions: OptionSet, Sendable {
      public let rawValue: Int
      public init(rawValue: Int) { self.rawValue = rawValue }
    }
    public protocol MusicDeveloperTokenProvider {
      func developerToken(options: MusicTokenRequestOptions) async throws -> String
    }
    open class MusicUserTokenProvider {
      public init() {}
    }
    """

  @Test("search Apple's catalog in Node with Express and in Next.js, and say why there is no token")
  func node() throws {
    let ground = try AccessGround()
    let directory = try TemporaryDirectory()
    for name in ["node.mjs", "next.mjs"] {
      let recipe = try Self.recipe(name, of: ground.server)
      _ = try directory.write(
        recipe.replacing("https://api.music.apple.com", with: ground.catalog.emulator.url)
          .replacing("\"express\"", with: "\"./express.mjs\""), to: name)
    }
    _ = try directory.write(try TextFile.read(WebModule.path), to: "musickit-token.mjs")
    _ = try directory.write("export * from './musickit-token.mjs';", to: "musickit-token.js")
    _ = try directory.write(#"{ "type": "module" }"#, to: "package.json")
    _ = try directory.write(Self.express, to: "express.mjs")
    let calls = try directory.write(
      """
      import { createInterface } from "node:readline";
      process.env.PORT = "0";
      process.env.MUSICKIT_API_KEY = "wrong";
      await import("./node.mjs");
      const next = await import("./next.mjs");
      const search = async (name) => {
        const own = await fetch(`http://127.0.0.1:${globalThis.port}/search?term=khalid`);
        const other = await next.GET(new Request("http://localhost/api/search?term=khalid"));
        for (const response of [own, other]) {
          const text = await response.text();
          console.log(`${name} ${response.status} ${text.includes("American Teen")}`);
        }
      };
      await search("refused");
      process.env.MUSICKIT_API_KEY = "\(Self.key)";
      await new Promise((resolve) => setTimeout(resolve, 0));
      await globalThis.developerTokens.refresh();
      console.log("first", await globalThis.developerTokens.get());
      await new Promise((resolve) => createInterface({ input: process.stdin }).once("line", resolve));
      const response = await next.GET(new Request("http://localhost/api/search?term=khalid"));
      console.log("kept", response.status, (await response.text()).includes("American Teen"));
      globalThis.server.close();
      process.stdin.destroy();
      """, to: "calls.mjs")
    let process = try ChildProcess("node", [calls], holdsInput: true)
    var lines: [String] = []
    while let line = try process.line() {
      lines.append(line.hasPrefix("first ") ? "first" : line)
      if line.hasPrefix("first ") {
        _ = try CompactToken(String(line.dropFirst(6)))
        ground.server.stop()
        process.send("\n")
      }
    }
    // Nothing of the module keeps the program alive.
    #expect(process.wait() == 0, "\(process.standardError)")
    #expect(lines == ["refused 502 false", "refused 502 false", "first", "kept 200 true"], "\(process.standardError)")
    #expect(process.standardError.contains("invalid_credentials"))
  }

  /// The part of Express that the recipe uses.
  private static let express = """
    import http from "node:http";
    export default () => {
      const routes = new Map();
      return {
        get: (path, handle) => routes.set(path, handle),
        listen: (port) => {
          globalThis.server = http.createServer((request, response) => {
            const url = new URL(request.url, "http://localhost");
            const reply = {
              status: (code) => { response.statusCode = code; return reply; },
              json: (value) => response.end(JSON.stringify(value)),
            };
            routes.get(url.pathname)({ query: Object.fromEntries(url.searchParams) }, reply);
          }).listen(Number(port), "127.0.0.1", () => { globalThis.port = globalThis.server.address().port; });
          globalThis.server.unref();
        },
      };
    };
    """

  @Test("keep a valid token for a shell in a file that only its user can read, and print the error otherwise")
  func shell() throws {
    let ground = try AccessGround()
    let home = try TemporaryDirectory()
    let recipe = try Self.recipe("recipe.sh", of: ground.server)
      .replacing("https://api.music.apple.com", with: ground.catalog.emulator.url)
    func attempt(key: String) throws -> ProcessResult {
      try home.write("header = \"Authorization: Bearer \(key)\"\n", to: ".musickit-key")
      let environment = ["HOME": home.path, "PATH": "/usr/local/bin:/usr/bin:/bin", "NO_PROXY": "*"]
      return try run("sh", ["-c", recipe], environment: environment)
    }
    let bad = try attempt(key: "wrong")
    #expect(bad.stdout.isEmpty && bad.status != 0)
    #expect(bad.stderr.contains("invalid_credentials"), "\(bad.stderr)")
    let good = try attempt(key: Self.key)
    #expect(good.status == 0 && good.stdout.hasPrefix("HTTP/1.1 200 "), "\(good.stdout)\(good.stderr)")
    #expect(try run("stat", ["-c", "%a", home.path(of: ".musickit-token")]).stdout == "600\n")
    ground.server.stop()
    #expect(ground.auditLines.count { $0.client == "android" } == 1)
    let kept = try attempt(key: Self.key)
    #expect(kept.stdout.hasPrefix("HTTP/1.1 200 "), "\(kept.stderr)")
    let file = home.path(of: ".musickit-token")
    let old = try TextFile.read(file)
    let due = try #require(old.split(separator: "\"refreshAfter\":").last?.prefix { $0.isNumber })
    try home.write(old.replacing("\"refreshAfter\":\(due)", with: "\"refreshAfter\":1"), to: ".musickit-token")
    let late = try attempt(key: Self.key)
    #expect(late.stdout.hasPrefix("HTTP/1.1 200 ") && late.stderr.contains("curl: "), "\(late.stderr)")
    let expiry = try #require(old.split(separator: "\"expiresAt\":").last?.prefix { $0.isNumber })
    try home.write(
      old.replacing("\"refreshAfter\":\(due)", with: "\"refreshAfter\":1")
        .replacing("\"expiresAt\":\(expiry)", with: "\"expiresAt\":1"), to: ".musickit-token")
    #expect(try attempt(key: Self.key).status != 0)
  }

  @Test("come as a package that npm takes, with the version of the server")
  func package() throws {
    let folder = "\(Repository.path)/Sources/WebFiles/Module"
    let package = try #require(JSONReader.read(Array(try TextFile.read("\(folder)/package.json").utf8)))
    let version = try Program.run(["--version"]).stdout.split(separator: " ")[0]
    #expect(package["version"]?.string == String(version))
    let packed = try run("npm", ["pack", "--dry-run", "--json", "--offline", folder])
    #expect(packed.status == 0, "\(packed.stderr)")
    for name in ["musickit-token.js", "musickit-token.d.ts", "package.json", "README.md"] {
      #expect(packed.stdout.contains("\"path\": \"\(name)\""), "\(packed.stdout)")
    }
  }

  /// Runs a recipe with calls that print lines: `refused`, `first`, and, after a line of input, `kept`, `due` and
  /// `expired`. The server ends before that line.
  private static func check(
    _ name: String, _ calls: String,
    prepare: (_ source: String, TemporaryDirectory) throws -> (program: String, arguments: [String])
  ) throws {
    let ground = try AccessGround()
    let directory = try TemporaryDirectory()
    let (program, arguments) = try prepare("\(try recipe(name, of: ground.server))\n\(calls)", directory)
    let process = try ChildProcess(program, arguments, holdsInput: true)
    var lines: [String: String] = [:]
    while let line = try process.line() {
      let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
      guard parts.count == 2 else { continue }
      lines[parts[0]] = parts[1].lowercased()
      if parts[0] == "first" {
        _ = try CompactToken(parts[1])
        ground.server.stop()
        process.send("\n")
        process.closeInput()
      }
    }
    #expect(process.wait() == 0, "\(process.standardError)")
    #expect(lines["refused"]?.contains("invalid_credentials") == true, "\(lines)")
    #expect(lines["kept"] == "true true" && lines["due"] == "true true", "\(lines) \(process.standardError)")
    #expect(lines["expired"]?.hasPrefix("ey") == false, "\(lines)")
    #expect(ground.auditLines.count { $0.client == "android" } == 1)
  }

  /// A recipe, with the address of a server.
  private static func recipe(_ name: String, of server: RunningServer) throws -> String {
    try TextFile.read("\(Repository.path)/docs/recipes/\(name)")
      .replacing("https://tokens.example.com", with: server.url)
  }

  /// The script of a page's recipe, with the address of a server.
  private static func script(in file: String, of server: RunningServer) throws -> String {
    let text = try TextFile.read("\(Repository.path)/\(file)")
    let script = text.split(separator: "<script type=\"module\">\n", maxSplits: 1).last?.split(separator: "</script>")
      .first
    return String(try #require(script)).replacing("https://tokens.example.com", with: server.url)
  }
}
