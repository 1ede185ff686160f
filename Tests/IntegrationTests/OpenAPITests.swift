import JSON
import TestSupport
import Testing

@Suite("/openapi.json")
struct OpenAPITests {
  @Test("is OpenAPI 3.1 and has every public path")
  func document() throws {
    let answer = try Ground().serve().request("/openapi.json")
    #expect(answer.status == 200)
    #expect(answer["Content-Type"] == "application/json")
    let document = try #require(answer.json)
    #expect(document["openapi"]?.string?.hasPrefix("3.1.") == true)
    #expect(document["paths"]?.names == ["/healthz", "/openapi.json", "/readyz", "/token"])
  }

  @Test("says what the server does, as schemathesis finds")
  func schemathesis() throws {
    // The document has Apple's maximum; what a server is configured to give is less as a rule.
    let server = try Ground().serve(["TOKEN_MAX_TTL": "15777000s"], ["--unsafe-allow-anonymous"])
    let program = Repository.python.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/schemathesis"
    let directory = try TemporaryDirectory()
    // It writes its example database into the working directory.
    let result = try run(
      "sh",
      [
        "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", directory.path,
        Repository.python.contains("/") ? program : "schemathesis", "--config-file",
        "\(Repository.path)/Tests/schemathesis.toml", "run", "\(server.url)/openapi.json", "--checks",
        "all",
        "--phases", "examples,coverage,fuzzing", "--max-examples", "40", "--seed", "1", "--workers", "2", "--no-color",
      ])
    #expect(result.status == 0, "\(result.stdout)\(result.stderr)")
    #expect(try server.request("/token").status == 200)
    #expect(server.stop() == 0)
  }
}
