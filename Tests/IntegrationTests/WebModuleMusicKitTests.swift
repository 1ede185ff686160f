import Testing

/// `configureMusicKit` with an object in place of MusicKit JS, which behaves as version 3 does: each call of `configure`
/// makes a new instance, and an instance keeps its token.
@Suite("The module for web apps hands MusicKit JS")
struct WebModuleMusicKitTests {
  /// `load` makes MusicKit JS available. `instances` has what `configure` made.
  private static let musicKit = """
    const instances = [];
    class Instance extends EventTarget {
      isPlaying = false;
      playbackState = 0;
      queue = { length: 0 };
      constructor(configuration) { super(); this.configuration = configuration; }
      change(facts) { Object.assign(this, facts); return happen(this, "playbackStateDidChange"); }
    }
    const load = () => {
      window.MusicKit = {
        async configure(configuration) {
          await undefined;
          instances.push(new Instance(configuration));
          return instances.at(-1);
        },
      };
      document.dispatchEvent(new Event("musickitloaded"));
    };
    const given = () => instances.map(({ configuration }) => configuration.developerToken);
    const app = { name: "My App", build: "1.0" };
    const tokens = new DeveloperTokens({ url });
    // The next token comes 6 to 7.5 hours after the last one.
    const renewal = 27_100;

    """

  private static func run(_ script: String) throws { try WebModule.inWorld("\(musicKit)\(script)") }

  @Test("its configuration with a token, before or after it is loaded", arguments: [true, false])
  func configuration(isLoaded: Bool) throws {
    try Self.run(
      """
      if (\(isLoaded)) load();
      const configured = tokens.configureMusicKit({ app, features: ["a"] });
      await settle();
      if (!\(isLoaded)) { same(server.requests.length, 0); load(); }
      const music = await configured;
      same([music === instances[0], instances.length], [true, 1]);
      same(music.configuration, { app, features: ["a"], developerToken: "token-1" });
      """)
  }

  @Test("a new token at once if no music plays and the queue is empty")
  func atRest() throws {
    try Self.run(
      """
      load();
      const replaced = [];
      await tokens.configureMusicKit({ app }, { onReplace: (...both) => replaced.push(both) });
      await pass(renewal);
      same([given(), replaced.length], [["token-1", "token-2"], 1]);
      same(replaced[0].map((music) => instances.indexOf(music)), [1, 0]);
      same(instances[1].configuration.app, app);
      await instances[0].change({ playbackState: 4 });
      same(instances.length, 2);
      await pass(renewal);
      same([given(), replaced.length, said], [["token-1", "token-2", "token-3"], 2, []]);
      """)
  }

  @Test("one new instance for each token, however often its playback changes meanwhile")
  func oneChange() throws {
    try Self.run(
      """
      load();
      const music = await tokens.configureMusicKit({ app });
      await music.change({ queue: { length: 3 } });
      await pass(renewal);
      same(instances.length, 1);
      await Promise.all([music.change({ queue: { length: 0 } }), music.change({}), happen(window, "pageshow")]);
      same(given(), ["token-1", "token-2"]);
      // The old instance counts for nothing.
      MusicKit.configure = async () => { instances.push(new Instance({})); throw new Error("no"); };
      await pass(renewal);
      await instances[0].change({});
      same(instances.length, 3);
      """)
  }

  @Test("a new token after the signal of the first call has aborted")
  func lateSignal() throws {
    try Self.run(
      """
      load();
      const caller = new AbortController();
      await tokens.configureMusicKit({ app }, { signal: caller.signal });
      caller.abort();
      await pass(renewal);
      same([given(), said], [["token-1", "token-2"], []]);
      """)
  }

  @Test("no token while music plays, loads, seeks, waits or goes on to the next song", arguments: [1, 2, 5, 6, 8, 9])
  func playing(state: Int) throws {
    try Self.run(
      """
      load();
      const music = await tokens.configureMusicKit({ app });
      await music.change({ isPlaying: \(state == 2), playbackState: \(state) });
      await pass(200_000);
      await music.change({});
      same([instances.length, server.serial > 5], [1, true]);
      const latest = await tokens.get();
      await music.change({ isPlaying: false, playbackState: 10 });
      same(given(), ["token-1", latest]);
      """)
  }

  @Test("no token while a queue waits, unless its token expires", arguments: [0, 3, 4, 10])
  func queued(state: Int) throws {
    try Self.run(
      """
      load();
      const music = await tokens.configureMusicKit({ app });
      await music.change({ playbackState: \(state), queue: { length: 3 } });
      await pass(renewal);
      await music.change({});
      same([instances.length, await tokens.get()], [1, "token-2"]);
      await pass(43_200 - renewal);
      await music.change({});
      same(instances.length, 2);
      """)
  }

  @Test("a token by itself when the old one expires while a queue waits")
  func expiry() throws {
    try Self.run(
      """
      load();
      const music = await tokens.configureMusicKit({ app });
      await music.change({ playbackState: 3, queue: { length: 3 } });
      await pass(renewal);
      same(instances.length, 1);
      await pass(43_200 - renewal);
      same(given(), ["token-1", "token-2"]);
      """)
  }

  @Test("the old token until a failed change succeeds, and tells subscribers about the failure")
  func failedChange() throws {
    try Self.run(
      """
      load();
      const errors = [];
      const music = await tokens.configureMusicKit({ app });
      tokens.subscribe(undefined, (error) => errors.push(error.message));
      const { configure } = MusicKit;
      MusicKit.configure = async () => { throw new Error("Initialized with an expired token."); };
      await pass(renewal);
      same([instances.length, errors], [1, ["Initialized with an expired token."]]);
      MusicKit.configure = configure;
      await music.change({});
      same([given(), said], [["token-1", "token-2"], []]);
      """)
  }

  @Test("nothing if there is no token, and the caller learns why")
  func noToken() throws {
    try Self.run(
      """
      load();
      server.behave = refuse(403, "origin_not_allowed");
      same((await failure(tokens.configureMusicKit({ app }))).code, "origin_not_allowed");
      same(instances.length, 0);
      """)
  }

  @Test("nothing after stop or after the caller's signal, and does not wait for it any longer")
  func stop() throws {
    try Self.run(
      """
      const waiting = failure(tokens.configureMusicKit({ app }, { signal: AbortSignal.abort(new Error("left")) }));
      same((await waiting).message, "left");
      const stopped = failure(tokens.configureMusicKit({ app }));
      tokens.stop();
      same((await stopped).message, "The page has stopped its DeveloperTokens.");
      load();
      await settle();
      same([instances.length, said], [0, []]);
      const others = new DeveloperTokens({ url });
      const music = await others.configureMusicKit({ app });
      others.stop();
      await pass(100_000);
      await music.change({ playbackState: 10 });
      same(instances.length, 1);
      """)
  }
}
