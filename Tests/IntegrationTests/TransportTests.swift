import Glibc
import TestSupport
import Testing

@Suite("The server")
struct TransportTests {
  @Test("listens on a Unix-domain socket and removes the socket at its end")
  func unixSocket() throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "http.sock")
    var settings = ground.settings
    settings["SERVER_PORT"] = nil
    settings["SERVER_UNIX_SOCKET"] = path
    let server = try RunningServer([], environment: settings)
    #expect(server.url.contains(path))
    #expect(try ParsedResponse(curl: ["--unix-socket", path, "http://localhost/token"]).status == 200)
    #expect(server.stop() == 0)
    #expect(unsafe access(path, F_OK) != 0)
  }

  @Test("listens on a Unix-domain socket that a crashed server has left behind")
  func staleUnixSocket() throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "http.sock")
    var settings = ground.settings
    settings["SERVER_PORT"] = nil
    settings["SERVER_UNIX_SOCKET"] = path
    let first = try RunningServer([], environment: settings)
    #expect(try Program.run(["serve"], environment: settings).status == 75, "the socket is in use")
    #expect(first.stop(SIGKILL) == 128 + SIGKILL)
    let second = try RunningServer([], environment: settings)
    #expect(try ParsedResponse(curl: ["--unix-socket", path, "http://localhost/healthz"]).status == 200)
    #expect(second.stop() == 0)
  }

  /// Whether the machine has an IPv6 loopback address.
  static let hasIPv6 = ((try? TextFile.read("/proc/net/if_inet6")) ?? "").hasPrefix("00000000000000000000000000000001")

  @Test("listens on IPv6", .enabled(if: hasIPv6, "this machine has no ::1"))
  func ipv6() throws {
    let server = try Ground().serve(["SERVER_HOST": "::1", "ADMIN_HOST": "::1"])
    #expect(server.url.hasPrefix("http://[::1]:"))
    #expect(try server.request("/token").status == 200)
    #expect(try server.admin("/readyz").status == 200)
    server.stop()
    #expect(server.accessLines.count == 2 && server.log.contains("\"::1\""))
  }

  @Test("listens on every address if the host is *")
  func everywhere() throws {
    let server = try Ground().serve(["SERVER_HOST": "*"])
    #expect(try ParsedResponse(curl: ["http://127.0.0.1:\(server.port)/token"]).status == 200)
    if Self.hasIPv6 { #expect(try ParsedResponse(curl: ["http://[::1]:\(server.port)/token"]).status == 200) }
    #expect(server.stop() == 0)
  }

  @Test("accepts a request in HTTP/1.0")
  func http10() throws {
    let response = try Ground().serve().request("/token", "--http1.0")
    #expect(response.status == 200)
    #expect(response.json != nil)
  }
}
