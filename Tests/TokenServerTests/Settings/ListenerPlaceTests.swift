import Glibc
import TestSupport
import Testing

@testable import EventLoop
@testable import ServerSettings

@Suite("The addresses of public and admin listener")
struct ListenerPlaceTests {
  @Test(
    "overlap if both get connections to one address",
    arguments: [
      ("*", "127.0.0.1", true), ("*", "::1", true), ("0.0.0.0", "127.0.0.1", true), ("0.0.0.0", "::1", false),
      ("::", "2001:db8::1", true), ("0:0::0", "::1", true), ("::", "127.0.0.1", false), ("::", "0.0.0.0", false),
      ("localhost", "127.0.0.1", true), ("localhost", "::1", true), ("localhost", "127.0.0.2", false),
      ("2001:DB8::1", "2001:db8:0::1", true), ("192.0.2.1", "192.0.2.2", false),
    ])
  func overlap(_ one: String, _ other: String, _ expected: Bool) throws {
    func overlap(_ port: Int) throws -> Bool {
      let settings = ["SERVER_HOST": one, "ADMIN_HOST": other, "ADMIN_PORT": "\(port)"]
      return try !SettingsFixture.errors("{ \(SettingsFixture.minimal) }", settings).isEmpty
    }
    #expect(try overlap(8080) == expected)
    #expect(try !overlap(8081) && !overlap(0))
  }

  @Test("are those of passed sockets if the service manager passes some", arguments: ["public", "admin"])
  func passed(_ name: String) throws {
    // Without an address, a socket listens on every address, at a free port.
    let descriptor = socket(AF_INET6, Int32(SOCK_STREAM.rawValue), 0)
    try #require(listen(descriptor, 1) == 0)
    defer { close(descriptor) }
    let socket = try PassedSocket(descriptor, name: name)
    let port = try #require(socket.address.port)
    var host = SettingsFixture.host
    host.sockets = try PassedListeners([socket])
    let other = name == "public" ? "ADMIN_PORT" : "SERVER_PORT"
    let errors = try SettingsFixture.errors("{ \(SettingsFixture.minimal) }", [other: "\(port)"], host: host)
    let problem =
      name == "public"
      ? "admin.port (ADMIN_PORT): is the same as port \(port) of a socket that the service manager passes; write another"
      : "admin.port: the socket with the name admin has server.port as well; give one of the two another port."
    #expect(errors.count == 1 && errors[0].hasPrefix(problem), "\(errors)")
    #expect(try SettingsFixture.errors("{ \(SettingsFixture.minimal) }", host: host).isEmpty)
  }
}
