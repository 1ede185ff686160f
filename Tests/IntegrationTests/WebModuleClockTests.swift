import Testing

/// The module of `WebModule` with a clock that the test moves, and a server that the test breaks.
@Suite("The module for web apps")
struct WebModuleClockTests {
  @Test("sends one request for all callers, and none while the token is not due")
  func oneRequest() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      same(server.requests.length, 0);
      same(await Promise.all([tokens.get(), tokens.get(), tokens.get()]), ["token-1", "token-1", "token-1"]);
      await pass(21_599);
      same([await tokens.get(), server.requests.length], ["token-1", 1]);
      const [{ method, url: address, cache, headers, credentials }] = server.requests;
      same([method, address, cache, headers, credentials], ["GET", url, "no-store", undefined, undefined]);
      same(said, []);
      """)
  }

  @Test("returns at refreshAfter plus a random part of the rest of the token's life")
  func jitter() throws {
    try WebModule.inWorld(
      """
      const returns = [];
      for (let page = 0; page < 40; page += 1) {
        Object.assign(server, { issued: -Infinity, requests: [] });
        const tokens = new DeveloperTokens({ url });
        await tokens.get();
        const start = server.now;
        await pass(21_600 + 5_400 + 60);
        same(server.requests.length, 2);
        returns.push(Math.round(server.requests[1].at + 1_900_000_000 - start));
        tokens.stop();
      }
      same(returns.filter((seconds) => seconds < 21_600 || seconds > 27_060), []);
      // Forty pages in 5400 seconds: no second has many of them, and they take most of the time.
      same(new Set(returns).size > 30 && Math.max(...returns) - Math.min(...returns) > 2_700, true);
      """)
  }

  @Test("gives the present token to callers while it gets the next one, and tells subscribers")
  func renewal() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      const told = [], errors = [];
      const unsubscribe = tokens.subscribe((token) => told.push(token), (error) => errors.push(error));
      await tokens.get();
      sleep(28_000);
      same([await tokens.get(), await tokens.get()], ["token-1", "token-1"]);
      await settle();
      same([await tokens.get(), server.requests.length, told], ["token-2", 2, ["token-1", "token-2"]]);
      unsubscribe();
      sleep(28_000);
      await tokens.get();
      await settle();
      same([await tokens.get(), told.length, errors, said], ["token-3", 2, [], []]);
      """)
  }

  @Test("does not tell subscribers about a token that they have, and survives a subscriber that throws")
  func subscribers() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      const told = [];
      tokens.subscribe(() => { throw new Error("a fault of the page"); });
      tokens.subscribe((token) => told.push(token));
      await tokens.get();
      same([await tokens.refresh(), server.requests.length, told], ["token-1", 2, ["token-1"]]);
      same(said.map((error) => error.message), ["a fault of the page"]);
      """)
  }

  @Test(
    "renews a token after sleep as soon as the page is seen, shown again, online, or asks",
    arguments: [
      "happen(document, \"visibilitychange\")", "happen(window, \"pageshow\")", "happen(window, \"online\")",
      "tokens.get()", "pass(60)",
    ])
  func sleep(_ event: String) throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      sleep(100_000);
      same(server.requests.length, 1);
      await \(event);
      same([server.requests.length, await tokens.get()], [2, "token-2"]);
      """)
  }

  @Test("never gives out a token that expired during sleep, whatever happened to the clock on the wall")
  func sleepAndClock() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      setClock(-36_000);
      await pass(60);
      sleep(43_200);
      same(await tokens.get(), "token-2");
      """)
  }

  @Test("never gives out a token that expired while the page was frozen and the clock on the wall was set back")
  func freezeAndClock() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      freeze(43_200);
      setClock(-43_200);
      same(await tokens.get(), "token-2");
      """)
  }

  @Test("counts a token's life from the request, because the device may sleep before it reads the response")
  func sleepDuringRequest() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      let arrive;
      server.behave = async () => {
        server.behave = undefined;
        const response = await server.respond(url, {});
        await new Promise((resolve) => { arrive = resolve; });
        return response;
      };
      const waiting = tokens.get();
      await settle();
      sleep(43_200);
      server.requests = [];
      arrive();
      same([await waiting, server.requests.length], ["token-2", 1]);
      """)
  }

  @Test(
    "keeps to the server's time if the clock on the wall is off by hours", arguments: [-50_000, 50_000, 400_000_000])
  func wrongClock(_ seconds: Int) throws {
    try WebModule.inWorld(
      """
      setClock(\(seconds));
      const tokens = new DeveloperTokens({ url });
      same(await tokens.get(), "token-1");
      await pass(21_599);
      same(server.requests.length, 1);
      await pass(5_461);
      same([server.requests.length, await tokens.get()], [2, "token-2"]);
      """)
  }

  @Test("sends at most one request more when the clock on the wall jumps ahead, and none when it jumps back")
  func jumps() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      setClock(-36_000);
      for (let call = 0; call < 10; call += 1) await tokens.get();
      await pass(600);
      same(server.requests.length, 1);
      setClock(500_000);
      for (let call = 0; call < 10; call += 1) same(await tokens.get(), "token-1");
      await pass(600);
      same([server.requests.length, timers.size], [2, 1]);
      """)
  }

  @Test("has one timer of at most a minute, whatever the lifetime")
  func longLife() throws {
    try WebModule.inWorld(
      """
      server.life = 15_777_000;
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      same([...timers.values()].map(({ at }) => at), [60_000]);
      sleep(7_888_500 - 100);
      await pass(60);
      same([server.requests.length, timers.size], [1, 1]);
      """)
  }

  @Test("leaves ten seconds between two requests, even if the server wants less")
  func shortLife() throws {
    try WebModule.inWorld(
      """
      server.behave = () => reply(200, { token: "short", expiresAt: 900, expiresIn: 60, refreshAfter: 840 });
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      await pass(600);
      same(server.requests.length <= 61, true);
      """)
  }

  @Test("keeps a valid token while the server is down, and comes back less and less often")
  func outage() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      const errors = [];
      tokens.subscribe(undefined, (error) => errors.push(error));
      await tokens.get();
      await pass(21_000);
      server.behave = down;
      await pass(20_000);
      same(await tokens.get(), "token-1");
      const pauses = server.requests.slice(1).map(({ at }, index, all) => at - (all[index - 1]?.at ?? at));
      same(pauses.slice(1, 5).map((pause, index) => pause >= 2 ** index / 2 && pause <= 2 ** index), [true, true, true, true]);
      same([Math.max(...pauses) <= 300, pauses.length > 40, pauses.length < 160], [true, true, true]);
      same([errors.length, errors[0].final, errors[0].status, said], [pauses.length, false, undefined, []]);
      server.behave = undefined;
      await pass(300);
      same(await tokens.get(), "token-2");
      // The next outage begins with short pauses again.
      server.behave = down;
      await failure(tokens.refresh());
      const count = server.requests.length;
      await pass(1);
      same(server.requests.length - count, 1);
      """)
  }

  @Test("fails in plain words when the last token has expired, and recovers by itself")
  func expiry() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      server.behave = down;
      await pass(43_200 - 61);
      same(await tokens.get(), "token-1");
      await pass(2);
      const error = await failure(tokens.get());
      same([error instanceof TokenError, error.name, error.cause.message], [true, "TokenError", "Failed to fetch"]);
      same(error.message, `${url} cannot be reached, or does not allow pages of https://app.example.com.`);
      const count = server.requests.length;
      for (let call = 0; call < 100; call += 1) await failure(tokens.get());
      same([server.requests.length - count, said], [0, []]);
      server.behave = undefined;
      await pass(300);
      same([server.requests.length - count, await tokens.get()], [1, "token-2"]);
      """)
  }

  @Test("connects as soon as the page is online again, in less than two seconds")
  func offline() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      server.behave = down;
      await pass(40_000);
      server.behave = undefined;
      const count = server.requests.length;
      await happen(window, "online");
      await pass(2);
      same([server.requests.length - count, await tokens.get()], [1, "token-2"]);
      """)
  }

  @Test(
    "sends nothing before the end of Retry-After, and then at a random moment",
    arguments: [(429, "rate_limited"), (503, "overloaded")])
  func retryAfter(status: Int, code: String) throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      server.behave = refuse(\(status), "\(code)", { "Retry-After": "1000" });
      sleep(40_000);
      same(await tokens.get(), "token-1");
      await settle();
      await happen(window, "online");
      await happen(document, "visibilitychange");
      const error = await failure(tokens.refresh());
      same([error.status, error.code, error.retryAfter, error.final], [\(status), "\(code)", 1000, false]);
      await pass(999);
      same([server.requests.length, await tokens.get()], [2, "token-1"]);
      server.behave = undefined;
      await pass(251);
      same([server.requests.length, await tokens.get()], [3, "token-2"]);
      """)
  }

  @Test("spreads the pages that got the same Retry-After")
  func spreadRetries() throws {
    try WebModule.inWorld(
      """
      server.behave = refuse(503, "overloaded", { "Retry-After": "60" });
      for (let page = 0; page < 20; page += 1) await failure(new DeveloperTokens({ url }).get());
      await pass(59);
      same(server.requests.length, 20);
      await pass(16.5);
      const returns = server.requests.slice(20).map(({ at }) => Math.round(at));
      same([returns.length, new Set(returns).size > 5], [20, true]);
      """)
  }

  @Test("waits at most an hour and a quarter, whatever Retry-After says, and ignores one that is no number")
  func strangeRetryAfter() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      server.behave = refuse(503, "overloaded", { "Retry-After": "99999999" });
      same((await failure(tokens.get())).status, 503);
      await pass(3_599);
      same(server.requests.length, 1);
      await pass(902);
      same(server.requests.length, 2);
      server.behave = refuse(503, "overloaded", { "Retry-After": "Wed, 25 Nov 2026 00:00:00 GMT" });
      await pass(4_600);
      same([server.requests.length > 3, (await failure(tokens.get())).retryAfter], [true, undefined]);
      """)
  }

  @Test(
    "does not repeat a request that the server refuses for good, and says why",
    arguments: [
      (400, "invalid_parameter"), (401, "missing_credentials"), (403, "origin_not_allowed"), (404, "not_found"),
    ])
  func refusal(status: Int, code: String) throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      server.behave = refuse(\(status), "\(code)");
      const error = await failure(tokens.get());
      same(error.message, "The server gives no developer token. It is so. (\(status) \(code), request r-1)");
      same([error.status, error.code, error.detail, error.requestId, error.final], [\(status), "\(code)", "It is so.", "r-1", true]);
      same(await failure(tokens.get()) === error, true);
      await pass(100_000);
      await happen(window, "online");
      await happen(document, "visibilitychange");
      same([server.requests.length, timers.size, said], [1, 0, []]);
      // A caller may try again, after a sign-in for example.
      server.behave = undefined;
      same(await tokens.get(), "token-1");
      """)
  }

  @Test("keeps a valid token after a final refusal, and does not ask with every call")
  func refusedRenewal() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      server.behave = refuse(401, "invalid_credentials");
      sleep(30_000);
      for (let call = 0; call < 100; call += 1) same(await tokens.get(), "token-1");
      await settle();
      same(server.requests.length, 2);
      sleep(20_000);
      same((await failure(tokens.get())).code, "invalid_credentials");
      """)
  }

  @Test(
    "does not accept a response without a token",
    arguments: [
      "\"<html>Please sign in to this network</html>\"", "{}", "[]", "null", "{ token: 7, expiresIn: 60 }",
      "{ token: \"t\" }", "{ token: \"t\", expiresIn: 60 }",
      "{ token: \"t\", expiresIn: -1, expiresAt: 9, refreshAfter: 9 }",
    ])
  func noToken(_ content: String) throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      server.behave = () => reply(200, \(content));
      const error = await failure(tokens.get());
      same([error.message, error.final], [`The response of ${url} is no developer token.`, false]);
      server.behave = undefined;
      await pass(2);
      same(await tokens.get(), "token-1");
      """)
  }

  @Test("names the status of a response without an error of the server")
  func foreignError() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      server.behave = () => reply(502, "<h1>Bad gateway</h1>", { "X-Request-ID": "r-2" });
      const error = await failure(tokens.get());
      same(error.message, "The server gives no developer token. It gives no reason. (502, request r-2)");
      same([error.status, error.code, error.requestId, error.final], [502, undefined, "r-2", false]);
      """)
  }

  @Test("ends the wait for a silent server")
  func timeout() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url, timeout: 3_000 });
      let signal;
      server.behave = (options) => (signal = options.signal, new Promise(() => {}));
      const waiting = failure(tokens.get());
      await pass(2.9);
      same(signal.aborted, false);
      await pass(0.2);
      same([(await waiting).message, signal.aborted], [`${url} has not responded within 3000 ms.`, true]);
      """)
  }

  @Test("lets one caller stop waiting, and the others wait on")
  func abort() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      let respond, signal;
      server.behave = (options) => (signal = options.signal, new Promise((resolve) => { respond = resolve; }));
      const caller = new AbortController();
      const [one, other] = [failure(tokens.get({ signal: caller.signal })), tokens.get()];
      await settle();
      caller.abort(new Error("the user has left"));
      same([(await one).message, signal.aborted], ["the user has left", false]);
      server.behave = undefined;
      respond(await server.respond(url, {}));
      same(await other, "token-1");
      same((await failure(tokens.get({ signal: caller.signal }))).message, "the user has left");
      """)
  }

  @Test("sends the page's own header fields, made afresh for each request")
  func headers() throws {
    try WebModule.inWorld(
      """
      let serial = 0;
      const tokens = new DeveloperTokens({ url, headers: async () => ({ Authorization: `Bearer jwt-${++serial}` }) });
      await tokens.get();
      await tokens.refresh();
      same(server.requests.map(({ headers }) => headers.Authorization), ["Bearer jwt-1", "Bearer jwt-2"]);
      const broken = new DeveloperTokens({ url, headers: () => { throw new Error("signed out"); } });
      same((await failure(broken.get())).message, "The page could not make the headers of its request: signed out");
      same(server.requests.length, 2);
      """)
  }

  @Test("does nothing any more after stop")
  func stop() throws {
    try WebModule.inWorld(
      """
      const tokens = new DeveloperTokens({ url });
      await tokens.get();
      let signal;
      server.behave = (options) => (signal = options.signal, new Promise(() => {}));
      const waiting = failure(tokens.refresh());
      await settle();
      tokens.stop();
      const message = "The page has stopped its DeveloperTokens.";
      same([(await waiting).message, signal.aborted], [message, true]);
      same([(await failure(tokens.get())).message, (await failure(tokens.refresh())).message], [message, message]);
      await happen(window, "online");
      await pass(100_000);
      same([server.requests.length, timers.size, said], [2, 0, []]);
      server.behave = undefined;
      const others = new DeveloperTokens({ url });
      await others.get();
      others.stop();
      same(timers.size, 0);
      """)
  }
}
