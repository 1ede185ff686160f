import JSON
import TestSupport
import Testing

@Suite("/openapi.json")
struct OpenAPITests {
  @Test("is an OpenAPI 3.1 document with every public path")
  func document() throws {
    let response = try Ground().serve().request("/openapi.json")
    #expect(response.status == 200)
    #expect(response["Content-Type"] == "application/json")
    let document = try #require(response.json)
    #expect(document["openapi"]?.string?.hasPrefix("3.1.") == true)
    #expect(
      document["paths"]?.names == [
        "/healthz", "/openapi.json", "/readyz", "/token", "/v1/catalog/{storefront}", "/v1/catalog/{storefront}/charts",
        "/v1/catalog/{storefront}/search", "/v1/catalog/{storefront}/search/hints",
        "/v1/catalog/{storefront}/search/suggestions", "/v1/catalog/{storefront}/{type}",
        "/v1/catalog/{storefront}/{type}/{id}", "/v1/catalog/{storefront}/{type}/{id}/view/{view}",
        "/v1/catalog/{storefront}/{type}/{id}/{relationship}", "/v1/language/{storefront}/tag", "/v1/storefronts",
        "/v1/storefronts/{storefront}", "/v1/test",
      ])
  }

  @Test("gives the lifetimes that the server enforces")
  func lifetime() throws {
    let server = try Ground().serve(["TOKEN_MAX_TTL": "13h"])
    let lifetime = try #require(try server.request("/openapi.json").json?["components"]?["schemas"]?["Lifetime"])
    let (least, most) = (try #require(lifetime["minimum"]?.integer), try #require(lifetime["maximum"]?.integer))
    #expect((least, most) == (60, 46_800))
    for (ttl, status) in [(least - 1, 400), (least, 200), (most, 200), (most + 1, 400)] {
      #expect(try server.request("/token?ttl=\(ttl)").status == status, "\(ttl)")
    }
  }

  @Test("matches the server's behaviour, as schemathesis verifies")
  func schemathesis() throws {
    let ground = try Ground()
    let sandbox = try ChildProcess(
      Program.path,
      ["sandbox", "--port", "0", "--key-file", ground.keyFile, "--team-id", ground.settings["MUSICKIT_TEAM_ID"] ?? ""])
    let upstream = try #require(try sandbox.line()?.split(separator: " ").last)
    let server = try ground.serve(
      ["CATALOG_UPSTREAM": String(upstream), "SERVER_PAGE": "true"], ["--unsafe-allow-anonymous"])
    let program = Repository.python.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/schemathesis"
    let directory = try TemporaryDirectory()
    // Schemathesis writes its example database into the working directory. It has one worker, because Python's own
    // parser, which Hypothesis uses, sometimes fails with two threads (bpo-106905).
    let result = try run(
      "sh",
      [
        "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", directory.path,
        Repository.python.contains("/") ? program : "schemathesis", "--config-file",
        "\(Repository.path)/Tests/schemathesis.toml", "run", "\(server.url)/openapi.json", "--checks",
        "all",
        "--phases", "examples,coverage,fuzzing", "--max-examples", "8", "--seed", "1", "--workers", "1", "--no-color",
      ])
    #expect(result.status == 0, "\(result.stdout)\(result.stderr)")
    #expect(try server.request("/token").status == 200)
    #expect(server.stop() == 0)
  }
}
