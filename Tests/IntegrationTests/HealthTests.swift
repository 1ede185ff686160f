import Glibc
import JSON
import TestSupport
import Testing

@Suite("Health")
struct HealthTests {
  @Test("is available on both listeners without credentials", arguments: ["/healthz", "/readyz"])
  func both(_ path: String) throws {
    let server = try Ground().serve(["ACCESS_ANONYMOUS": "{ catalog: true }"])
    for response in [try server.request(path), try server.admin(path), try server.request(path, "-I")] {
      #expect(response.status == 200)
      #expect(response["Cache-Control"] == "no-store")
      #expect(response["Content-Type"] == "application/json")
    }
  }

  @Test("has an entry for each check on the admin listener only")
  func checks() throws {
    let server = try Ground().serve()
    let detailed = try #require(try server.admin("/readyz").json)
    #expect(detailed["status"]?.string == "ready")
    let checks = try #require(detailed["checks"])
    #expect(checks.names == ["appleMusic", "appleMusicQuota", "auditLog", "settings", "signingKey", "token"])
    #expect(checks.members.allSatisfy { $0.value["status"]?.string == "ok" })
    #expect(try server.request("/readyz").json?.names == ["status"])
  }

  @Test("is degraded until the keys of an identity provider arrive, and the admin listener gives the reason")
  func identityProviders() throws {
    let provider = try IdentityProvider()
    try provider.behave("hold")
    let ground = try Ground()
    let server = try ground.serve(["ACCESS_CLIENTS": "[\(provider.client())]"])
    try provider.waitUntilHolding()
    let response = try server.request("/readyz")
    #expect(response.status == 200)
    #expect(response.json?["status"]?.string == "degraded")
    let checks = try #require(try server.admin("/readyz").json?["checks"])
    #expect(
      checks.names == [
        "appleMusic", "appleMusicQuota", "auditLog", "identityProviders", "settings", "signingKey", "token",
      ])
    #expect(checks["identityProviders"]?["status"]?.string == "degraded")
    #expect(
      checks["identityProviders"]?["detail"]?.string == "the keys of 1 have not arrived yet; the log has the reason")
    try provider.behave("ok")
    try provider.release()
    try eventually("the keys have come") { try server.request("/readyz").json?["status"]?.string == "ready" }
    let detail = try server.admin("/readyz").json?["checks"]?["identityProviders"]?["detail"]?.string
    #expect(detail == "all keys have arrived")
  }

  @Test(
    "responds on the admin listener while the loop of the public listener stands still",
    .enabled(if: geteuid() == 0, "It takes root to stop a thread of a process that cannot be dumped."))
  func ownLoop() throws {
    let server = try Ground().serve(["SERVER_LOOPS": "1"])
    let tracer = try ChildProcess(
      Repository.python, [Repository.script("stop_thread.py"), "\(server.process.id)", "loop-0"], holdsInput: true)
    #expect(try tracer.line() == "stopped", "\(tracer.standardError)")
    let client = try server.connect()
    client.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    for path in ["/healthz", "/readyz", "/metrics"] { #expect(try server.admin(path, "-m", "60").status == 200) }
    tracer.closeInput()
    #expect(tracer.wait() == 0)
    #expect(try client.response().status == 200)
  }

  @Test("is available on the admin listener, but tokens are not")
  func adminOnly() throws {
    let server = try Ground().serve()
    let refusal = try server.admin("/token")
    #expect(refusal.status == 404 && !refusal.text.contains("/openapi.json"))
    #expect(try server.request("/nothing").text.contains("/openapi.json lists all paths."))
  }

  @Test("is 503 on /readyz during the drain delay, and other requests still succeed on closing connections")
  func drainDelay() throws {
    let server = try Ground().serve(["SERVER_DRAIN_DELAY": "10s", "SERVER_LOOPS": "1"])
    let old = try server.connect()
    old.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try old.response().status == 200)
    server.process.signal(SIGTERM)
    // The signal takes some time; /readyz shows when it has arrived.
    var response = try server.request("/readyz")
    while response.status == 200 { response = try server.request("/readyz") }
    #expect(response.status == 503)
    #expect(response.json?["status"]?.string == "draining")
    // The loop hears of it a moment later.
    try eventually("responses end their connections") {
      let token = try server.request("/token")
      #expect(token.status == 200)
      return token["Connection"] == "close"
    }
    old.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    let last = try old.response()
    #expect(last.status == 200)
    #expect(last["Connection"] == "close")
    #expect(try server.request("/healthz").status == 200)
    #expect(try server.admin("/readyz").status == 503)
    #expect(server.process.wait() == 0)
  }
}
