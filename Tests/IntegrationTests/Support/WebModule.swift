import JSON
import TestSupport

/// `musickit-token.js`, the module for web apps, in the browser.
enum WebModule {
  static let path = "\(Repository.path)/Sources/WebFiles/Module/musickit-token.js"

  /// Runs a script in a page, with the module of this checkout, and in a world with its own clock and server.
  ///
  /// - Throws: `TestFailure` if an expectation of the script fails.
  static func inWorld(at page: String = "https://app.example.com", _ script: String) throws {
    let source = try TextFile.read(path).replacing("\\", with: "\\\\").replacing("`", with: "\\`")
      .replacing("${", with: "\\${")
    let module = "URL.createObjectURL(new Blob([`\(source)`], { type: \"text/javascript\" }))"
    _ = try Browser.shared().run(at: page, block("\(expectations)\(world)\(load(module))\(script)"))
  }

  /// Runs a script in a page, with the module that a server gives it.
  static func run(
    at page: String = "https://app.example.com", from server: String, _ script: String,
    meanwhile: () throws -> Void = {}
  ) throws {
    let module = load("\"\(server)/musickit-token.js\"")
    _ = try Browser.shared().run(at: page, block("\(expectations)\(module)\(script)"), meanwhile: meanwhile)
  }

  /// A block, so that the names of the script may be those of the browser's helpers.
  private static func block(_ script: String) -> String { "{\n\(script)\n}" }

  private static func load(_ module: String) -> String {
    "const { DeveloperTokens, TokenError, version } = await import(\(module));\n"
  }

  /// `same` compares by JSON. `failure` is the error of a promise. `said` has all that reached the console, and rejections
  /// that nothing handled.
  private static let expectations = """
    const same = (actual, expected) => {
      const [got, wanted] = [actual, expected].map((value) => JSON.stringify(value));
      if (got !== wanted) throw new Error(`${got} is not ${wanted}`);
    };
    const failure = (promise) => promise.then((value) => { throw new Error(`no error, but ${value}`); }, (error) => error);
    const said = [];
    for (const level of ["debug", "log", "info", "warn", "error"]) console[level] = (...words) => said.push(...words);
    addEventListener("unhandledrejection", (event) => said.push(event.reason));
    addEventListener("error", (event) => said.push(event.error));

    """

  /// A clock on the wall, a clock that rests in sleep, timers that rest in sleep, and a server.
  private static let world = """
    let wall = 1_800_000_000_000, awake = 0, timerID = 0;
    const timers = new Map();
    Date.now = () => wall;
    performance.now = () => awake;
    window.setTimeout = (run, delay) => (timers.set(++timerID, { run, at: awake + Math.max(1, Math.trunc(delay)) }), timerID);
    window.clearTimeout = (id) => timers.delete(id);

    // Lets everything run that waits for no timer. A message, because a browser delays nested timers by 4 ms.
    const settle = () => new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => { port1.close(); resolve(); };
      port2.postMessage(0);
    });
    const sleep = (seconds) => { wall += seconds * 1000; server.now += seconds; };
    const freeze = (seconds) => { sleep(seconds); awake += seconds * 1000; };
    const setClock = (seconds) => { wall += seconds * 1000; };
    const pass = async (seconds) => {
      await settle();
      const end = awake + seconds * 1000;
      const moveTo = (moment) => { sleep((moment - awake) / 1000); awake = moment; };
      for (;;) {
        const [id, next] = [...timers].sort(([, one], [, other]) => one.at - other.at)[0] ?? [];
        if (!(next?.at <= end)) break;
        timers.delete(id);
        moveTo(Math.max(awake, next.at));
        next.run();
        await settle();
      }
      moveTo(end);
    };
    const happen = async (target, name) => { target.dispatchEvent(new Event(name)); await settle(); };

    // Gives each token until half of its life has passed, as the real server does. `behave` replaces its response.
    const server = {
      now: 1_900_000_000, life: 43_200, issued: -Infinity, serial: 0, requests: [], behave: undefined,
      async respond(url, options) {
        this.requests.push({ at: this.now - 1_900_000_000, url: String(url), ...options });
        if (this.behave) return this.behave(options);
        if (this.now >= this.issued + this.life / 2) [this.issued, this.serial] = [this.now, this.serial + 1];
        const expiresAt = this.issued + this.life;
        return reply(200, {
          token: `token-${this.serial}`, issuedAt: this.issued - 60, expiresAt, expiresIn: expiresAt - this.now,
          refreshAfter: this.issued + this.life / 2,
        });
      },
    };
    const reply = (status, content, fields = {}) => ({
      ok: status === 200, status, headers: new Headers(fields),
      text: async () => typeof content === "string" ? content : JSON.stringify(content),
    });
    const refuse = (status, code, fields) =>
      () => reply(status, { errors: [{ id: "r-1", status: String(status), code, title: "No", detail: "It is so." }] }, fields);
    const down = () => { throw new TypeError("Failed to fetch"); };
    window.fetch = (url, options) => server.respond(url, options);
    const url = "https://tokens.example.com/token";

    """
}
