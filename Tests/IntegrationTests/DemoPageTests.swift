import JSON
import TestSupport
import Testing

/// Every panel of the page, in a browser, as a person uses it.
@Suite("The demo's page")
struct DemoPageTests {
  private let demo: RunningServer

  init() throws {
    demo = try RunningServer(["demo", "--port", "0"], environment: [:])
  }

  private var url: String { "http://localhost:\(demo.port)/" }
  private var admin: String { demo.adminURL.map { "\($0)/" } ?? "" }

  @Test("makes a token, decodes it, and compares its origin with its own")
  func token() throws {
    let view = try PageVisit.run(
      url,
      """
      await choose("#ttl", "3600");
      await type("#token-origin", "http://localhost:3000");
      await click("#token-form button");
      await shows("#verdict", "It is for http://localhost:3000, and not for this page");
      await click("#verdict summary");
      const first = text("#verdict");
      await type("#token-origin", location.origin);
      await press("Enter");
      await shows("#verdict", "It is for this page");
      return [first, find("#pasted").value, text("#verdict"), find(".life .track").getAttribute("aria-label")];
      """)
    guard case .array(let parts) = view, parts.count == 4 else {
      Issue.record("\(view)")
      return
    }
    let (first, second) = (parts[0].string ?? "", parts[2].string ?? "")
    #expect(first.contains("A valid token of this server") && first.contains("17 of 17 rules hold"), "\(first)")
    #expect(first.contains("DEMOKEY001") && first.contains("DEMOTEAM01") && first.contains("This server’s key made"))
    let claims = try CompactToken(try #require(parts[1].string)).claims
    #expect(claims["origin"]?.strings == ["http://localhost:\(demo.port)"])
    #expect(second.contains("http://localhost:\(demo.port)"))
    #expect(parts[3].string?.contains("left of") == true)
  }

  @Test("tells its story: a token is there, and what this is, and what comes next")
  func story() throws {
    let view = try PageVisit.run(
      url,
      """
      await shows("#verdict", "A valid token of this server");
      const first = [text("#story"), text("#verdict"), find("#verdict details").open];
      await click("#story a");
      await shows("#results", "American Teen");
      for (const chip of [...document.querySelectorAll("#chips button")]) {
        await click(chip);
        await until(() => find("#term").value === chip.innerText && find("#results h2"), chip.innerText + " finds something");
      }
      return [...first, document.querySelectorAll("#chips button").length];
      """)
    guard case .array(let parts) = view, parts.count == 4 else {
      Issue.record("\(view)")
      return
    }
    #expect(parts[0].string?.contains("Apple refuses tokens of this key") == true)
    #expect(parts[0].string?.contains("from the emulator") == true && parts[0].string?.contains("Next: ") == true)
    #expect(parts[1].string?.contains("Apple refuses it all the same") == true)
    #expect(parts[2] == .bool(false) && parts[3].integer == 4, "\(parts)")
  }

  @Test("goes back and forward through views, searches and albums, and shows any of them by its address")
  func history() throws {
    let view = try PageVisit.run(
      url,
      """
      await click("#tab-catalog");
      await type("#term", "khalid");
      await press("Enter");
      await shows("#results", "American Teen");
      await click(".grid a");
      await shows("#results", "15 tracks");
      const album = location.href;
      await click("#tab-live");
      await until(() => !find("#live").hidden);
      history.back();
      await until(() => !find("#catalog").hidden && text("#results").includes("15 tracks"), "back to the album");
      history.back();
      await shows("#results", "Songs");
      const focus = document.activeElement.closest(".grid a") !== null;
      await click("#tab-token");
      await click("#tab-catalog");
      await shows("#results", "Songs");
      const requests = document.querySelectorAll("#costs > details").length;
      history.go(-2);
      await until(() => !find("#catalog").hidden);
      return [album, String(focus), String(requests), document.title];
      """)
    let parts = view.strings ?? []
    #expect(parts.first?.hasSuffix("#catalog/album/us/1200868601") == true, "\(view)")
    #expect(parts.dropFirst().elementsEqual(["true", "2", "Catalog – MusicKit token server"]), "\(view)")
    let reloaded = try PageVisit.text(
      try #require(parts.first),
      """
      await shows("#results", "15 tracks");
      await click("#results button");
      await shows("#results", "Search for an artist");
      return "well";
      """)
    #expect(reloaded == "well")
  }

  @Test("keeps what is pasted while a requested token is on its way")
  func meanwhile() throws {
    let view = try PageVisit.text(
      url,
      """
      await shows("#verdict", "A valid token of this server");
      const send = window.fetch;
      let release, hasArrived;
      window.fetch = async (url, options) => {
        if (!String(url).startsWith("/token")) return send(url, options);
        await new Promise((resolve) => release = resolve);
        const response = await send(url, options);
        const read = response.text.bind(response);
        response.text = async () => { const content = await read(); setTimeout(() => hasArrived = true); return content; };
        return response;
      };
      await click("#token-form button");
      await until(() => release);
      await type("#pasted", "no token");
      await shows("#verdict", "It breaks one rule.");
      release();
      await until(() => hasArrived);
      return find("#pasted").value;
      """)
    #expect(view == "no token")
  }

  @Test("judges any pasted token, and names each broken rule")
  func judge() throws {
    let token = Self.foreignToken
    let view = try PageVisit.text(
      url,
      """
      await shows("#verdict", "A valid token of this server");
      await type("#pasted", "\(token)");
      await shows("#verdict", "Apple would refuse this token");
      const foreign = text("#verdict");
      await type("#pasted", "no token");
      await shows("#verdict", "It breaks one rule.");
      const garbage = text("#verdict");
      await click("#clear-token");
      await shows("#verdict", "No token yet.");
      return foreign + "\\n---\\n" + garbage;
      """)
    let parts = (view ?? "").split(separator: "---")
    #expect(parts.first?.contains("The token expired") == true)
    #expect(parts.first?.contains("which is only for Apple") == true, "\(parts)")
    // The rules that it breaks come first, and the others are behind a summary.
    #expect(parts.first?.contains("rules hold") == true && parts.first?.contains("The algorithm is ES256") == false)
    #expect(parts.last?.contains("It breaks one rule.") == true, "\(parts)")
    for word in ["page", "Origins", "Team"] { #expect(parts.last?.contains(word) == false, "\(parts)") }
  }

  @Test("drops the old verdict when a request is refused")
  func refusedToken() throws {
    let view = try PageVisit.text(
      url,
      """
      await shows("#verdict", "A valid token of this server");
      await type("#token-origin", "https://evil.example");
      await press("Enter");
      await shows("#token-problem", "403");
      await shows("#verdict", "No token yet.");
      return find("#pasted").value + text("#token-problem");
      """)
    #expect(view?.contains("origin_not_allowed") == true && view?.contains("eyJ") == false, "\(view ?? "")")
  }

  /// A token of another key, long expired, with a claim that only Apple's own player has.
  private static let foreignToken =
    [
      #"{"alg":"ES256","kid":"OTHERKEY01"}"#,
      #"{"iss":"OTHERTEAM1","iat":1000000000,"exp":1000003600,"root_https_origin":"apple.com"}"#,
      String(repeating: "s", count: 64),
    ].map { Base64URL.encode(Array($0.utf8)) }.joined(separator: ".")

  @Test("explains the decision about an origin, with the exact CORS fields")
  func access() throws {
    let view = try PageVisit.text(
      "\(url)#access",
      """
      await shows("#decision", "Allowed");
      await type("#access-origin", "https://evil.example");
      await press("Tab");
      await shows("#decision", "Refused with 403");
      const refused = text("#decision");
      await type("#access-origin", "http://localhost:3000");
      await press("Tab");
      await shows("#decision", "Access-Control-Allow-Origin");
      return refused + "\\n---\\n" + text("#decision");
      """)
    let parts = (view ?? "").split(separator: "---")
    #expect(parts.first?.contains("No client has the origin https://evil.example") == true)
    // The demo has no settings that a person could change.
    #expect(parts.first?.contains("The demo serves pages of this machine") == true)
    #expect(parts.first?.contains("Add the origin") == false)
    #expect(parts.last?.contains("http://localhost:3000") == true && parts.last?.contains("GET, POST") == true)
  }

  @Test("has each recipe with its own address, a warning where a person would misuse it, and the request for a shell")
  func snippets() throws {
    let view = try PageVisit.run(
      "\(url)#access",
      """
      const snippets = {};
      await until(() => text("#snippet") !== "");
      for (const button of document.querySelectorAll("#languages button")) {
        const before = text("#snippet");
        await click(button);
        if (button !== find("#languages button")) await until(() => text("#snippet") !== before);
        snippets[button.innerText] = text("#caution") + "\\n" + text("#snippet");
        if (!find("#about-recipe").hidden) snippets["file of " + button.innerText] = find("#recipe").href;
      }
      return snippets;
      """)
    for name in ["Web page", "iOS", "Android", "Node", "Next.js", "Go", "PHP", "Python", "Shell"] {
      let snippet = try #require(view[name]?.string, "\(name): \(view)")
      #expect(snippet.contains(name == "Web page" ? "\(url)musickit-token.js" : "\(url)token"), "\(name): \(snippet)")
      #expect(!snippet.contains("example.com"), "\(name)")
      let file = try #require(view["file of \(name)"]?.string)
      #expect(try demo.request("/" + file.dropFirst(url.count)).status == 200, "\(file)")
    }
    #expect(view["Python"]?.string?.contains("The demo needs no credential") == true)
    let curl = try #require(view["This request"]?.string?.split(separator: "\n").drop { !$0.hasPrefix("curl") })
    let result = try run("sh", ["-c", curl.joined(separator: "\n") + " --noproxy '*'"])
    #expect(result.status == 0 && result.stdout.contains(#""token""#), "\(result.stderr)")
  }

  @Test("searches the catalog, shows artwork and costs, pages, and opens an album with its tracks")
  func catalog() throws {
    let view = try PageVisit.run(
      "\(url)#catalog",
      """
      await type("#term", "khalid");
      await press("Enter");
      await shows("#results", "American Teen");
      await shows("#costs", "Miss");
      await until(() => find(".grid img").naturalWidth > 0, "the artwork is there");
      const songs = document.querySelectorAll("#results .songs li").length;
      await click("section[aria-label=Songs] div button");
      await until(() => document.querySelectorAll("#results .songs li").length > songs);
      await click("#search button");
      await shows("#costs", "Hit");
      await click("#costs summary");
      await shows("#costs pre", '"results"');
      const costs = text("#costs");
      await click(".grid a");
      await shows("#results", "Back to the results");
      const album = text("#results");
      await click("#results button");
      await shows("#results", "Albums");
      return [costs, album, violations.join()];
      """)
    let parts = view.strings ?? []
    #expect(parts.first?.contains("From memory, without a request to the emulator.") == true, "\(parts)")
    #expect(parts.first?.contains("musickit-token-server; hit") == true)
    #expect(parts.count == 3 && parts[1].contains("15 tracks") && parts[1].contains("4:10"))
    #expect(parts.last == "", "\(parts)")
  }

  @Test("says that nothing matches, and refuses an invalid storefront")
  func nothing() throws {
    let view = try PageVisit.text(
      "\(url)#catalog",
      """
      await type("#term", "xyzzyplugh");
      await press("Enter");
      await shows("#results", "Nothing matches");
      await type("#storefront", "zz");
      await press("Enter");
      await until(() => find("#results .problem"));
      return text("#results");
      """)
    #expect(view?.contains("request ") == true)
  }

  @Test("takes the emulator's user in place of Apple's sign-in")
  func user() throws {
    let view = try PageVisit.text(
      "\(url)#user",
      """
      const before = find("#me-send").disabled;
      await click("#sign-in button");
      await choose("#me-path", "/v1/me/library/playlists");
      await click("#me-send");
      await shows("#me-result", "Mine");
      const shown = text("#user");
      await click("#sign-in div > button:not(.secret button)");
      await shows("#me-result", "Sign in first.");
      return before + shown + document.scripts.length;
      """)
    #expect(view?.hasPrefix("true") == true && view?.hasSuffix("1") == true, "\(view ?? "")")
    #expect(view?.contains("sandbox-user-token") == false)
  }

  @Test("shows live figures with axes and legends, clients, keys and audit records, also in the demo's page")
  func live() throws {
    #expect(try demo.request("/token").status == 200)
    #expect(try demo.request("/v1/catalog/us/genres/20").status == 200)
    #expect(try demo.request("/token", "-H", "Origin: https://evil.example").status == 403)
    for page in [url, admin] {
      let view = try PageVisit.text(
        page,
        """
        await click("#tab-live");
        await shows("#audit", "https://evil.example");
        await shows("#clients", "anonymous");
        await shows("#keys", "DEMOKEY001");
        await until(() => document.querySelectorAll(".chart path").length > 6, "the charts have lines");
        await until(() => text("#charts").includes("No traffic since"), "a chart without traffic says so");
        await type("#audit-filter", "refused");
        await until(() => !text("#audit").includes("granted"));
        const filtered = text("#audit");
        await type("#audit-filter", "xyzzy");
        await shows("#audit", "No record matches the filter.");
        await click("#pause");
        const tabs = [...document.querySelectorAll("[role=tab]:not([hidden])")].map((tab) => tab.innerText).join();
        return filtered + find("#pause").getAttribute("aria-pressed") + text("#charts") + text("#clients") + tabs;
        """)
      let shown = try #require(view)
      #expect(shown.contains("origin_not_allowed") && shown.contains("true"))
      for words in ["ago", "now", "half of the requests", "429 of Apple", "Sent to Apple", "99 % within", "1 refused"] {
        #expect(shown.contains(words), "\(words): \(shown)")
      }
      #expect(shown.contains("1 since the start"), "a request to Apple: \(shown)")
      #expect(shown.hasSuffix(page == admin ? "Token,Access,Live" : "Token,Access,Catalog,User,Live"), "\(shown)")
    }
    // The looks of the view would fill the terminal.
    #expect(demo.stop() == 0)
    #expect(demo.log.contains("/page/facts") && !demo.log.contains("\"/page/audit\""), "\(demo.log.suffix(2000))")
  }

  @Test("works with keys only")
  func keyboard() throws {
    let view = try PageVisit.text(
      url,
      """
      const seen = [];
      find("#tab-token").focus();
      for (const key of ["ArrowRight", "ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"]) {
        await press(key);
        seen.push(document.activeElement.innerText);
      }
      for (let turn = 0; turn < 12 && document.activeElement.id !== "ttl"; turn += 1) await press("Tab");
      await press("Tab");
      await browser("Input.insertText", { text: location.origin });
      await press("Tab");
      await press("Enter");
      await shows("#verdict", "It is for this page");
      return seen.join();
      """)
    #expect(view == "Access,Catalog,Live,Token,Live,Token", "\(view ?? "")")
  }

  @Test(
    "gives each control a role and a name, and each panel its tab",
    arguments: ["token", "access", "catalog", "user", "live"])
  func accessibility(panel: String) throws {
    let nodes = try PageVisit.run("\(panel == "live" ? admin : url)#\(panel)", "return await tree();")
    guard case .array(let nodes) = nodes else { return }
    func named(_ role: String) -> [JSONValue] { nodes.filter { $0["role"]?.string == role } }
    let controls = ["button", "textbox", "combobox", "searchbox", "tab", "tabpanel", "link", "img", "region", "figure"]
    for node in controls.flatMap(named) { #expect(node["name"]?.string?.isEmpty == false, "\(node)") }
    let selected = named("tab").filter { $0["properties"]?["selected"] == .bool(true) }
    #expect(selected.map { $0["name"]?.string?.lowercased() } == [panel])
    #expect(named("tabpanel").map { $0["name"]?.string?.lowercased() } == [panel])
    #expect(named("heading").filter { $0["properties"]?["level"]?.integer == 1 }.count == 1)
  }

  @Test("keeps no token in its address, in the browser's storage or in the log")
  func secrecy() throws {
    let view = try PageVisit.text(
      url,
      """
      await click("#token-form button");
      await shows("#verdict", "A valid token");
      const places = [location.href, JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie,
        JSON.stringify(history.state), performance.getEntriesByType("resource").map(({ name }) => name).join()];
      if (places.join().includes("eyJ")) throw new Error(places.join());
      return find("#pasted").value;
      """)
    let token = try #require(view)
    #expect(demo.stop() == 0)
    #expect(!demo.log.contains(token) && !demo.log.contains(token.suffix(40)))
    #expect(demo.log.contains("/page/inspect"))
  }

  @Test("is small, loads nothing from elsewhere, and breaks no policy in light and dark, on a phone and on a desktop")
  func size() throws {
    let files = try PageVisit.run(
      url,
      "return performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => !name.endsWith('facts'))"
    )
    let paths = (files.strings ?? []).map { "/" + $0.split(separator: "/").dropFirst(2).joined(separator: "/") } + ["/"]
    #expect(paths.count > 10)
    #expect((files.strings ?? []).allSatisfy { $0.hasPrefix(url) })
    let bytes = try paths.map { try demo.request($0, "-H", "Accept-Encoding: gzip").body.count }.reduce(0, +)
    #expect(bytes < 60_000, "\(bytes) bytes")
    let view = try PageVisit.text(
      url,
      """
      for (const [width, mobile] of [[360, true], [1280, false]]) {
        await browser("Emulation.setDeviceMetricsOverride", { width, height: 800, deviceScaleFactor: 1, mobile });
        for (const tab of document.querySelectorAll("[role=tab]:not([hidden])")) {
          await click(tab);
          const wide = document.documentElement.scrollWidth;
          if (wide > width) throw new Error(tab.innerText + " is " + wide + " wide on " + width);
        }
        await shows("#audit", "granted");
        const audit = find("#audit");
        if (audit.scrollWidth > audit.clientWidth) throw new Error("The audit records do not fit on " + width);
      }
      return violations.join();
      """)
    #expect(view?.isEmpty == true, "\(view ?? "")")
  }
}
