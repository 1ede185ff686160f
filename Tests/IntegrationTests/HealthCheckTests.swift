import TestSupport
import Testing

@Suite("healthcheck")
struct HealthCheckTests {
  @Test("requests the admin listener of serve's settings and ends with status 0")
  func good() throws {
    let ground = try Ground()
    let server = try ground.serve()
    let port = try #require(server.adminURL?.split(separator: ":").last)
    let result = try Program.run(["healthcheck"], environment: ["ADMIN_PORT": String(port)])
    #expect(result.status == 0, "\(result.stderr)")
    #expect(result.stdout.isEmpty && result.stderr.isEmpty)
  }

  @Test("requests the given URL")
  func url() throws {
    let server = try Ground().serve()
    #expect(try Program.run(["healthcheck", "--url", "\(server.url)/readyz"]).status == 0)
    let other = try Program.run(["healthcheck", "--url", "\(server.url)/nothing"])
    #expect(other.status == 1)
    #expect(other.stderr.contains("404"))
  }

  @Test("ends with status 1 if no server answers")
  func dead() throws {
    let server = try Ground().serve()
    server.stop()
    let result = try Program.run(["healthcheck", "--url", "\(server.url)/healthz"])
    #expect(result.status == 1)
    #expect(result.stderr.split(separator: "\n").count == 1)
  }
}
