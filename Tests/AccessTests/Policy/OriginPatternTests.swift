import DeveloperToken
import HTTPMessages
import Testing

@testable import Access

@Suite("A pattern of origins")
struct OriginPatternTests {
  @Test(
    "is read and normalised",
    arguments: [
      ("https://app.example.com", "https://app.example.com"),
      ("HTTPS://App.Example.com:443/", "https://app.example.com"),
      ("https://*.preview.example.com", "https://*.preview.example.com"),
      ("HTTPS://*.Preview.Example.COM:443/", "https://*.preview.example.com"),
      ("http://*.dev.example:8080", "http://*.dev.example:8080"),
    ])
  func reads(_ text: String, _ expected: String) throws {
    #expect(try OriginPattern(text).description == expected)
  }

  @Test(
    "that is invalid is refused",
    arguments: [
      "https://app.example.com/path", "https://*.example.com/path", "*", "https://*", "https://*.com", "*.example.com",
      "https://app.*.example.com", "https://*.*.example.com", "https://a*.example.com", "https://*a.example.com",
      "https://example.*", "https://*.example.com:*", "https://user@*.example.com", "ftp://*.example.com",
      "https://*.1.2.3.4", "https://*.[::1]", "https://*.example.com?q", "null", "", "https://*..example.com",
    ])
  func refuses(_ text: String) {
    #expect(throws: OriginPatternError.self) { try OriginPattern(text) }
  }

  @Test(
    "with a star matches exactly one label in its place",
    arguments: [
      ("https://x.preview.example.com", true),
      ("https://pr-17.preview.example.com", true),
      ("https://preview.example.com", false),
      ("https://a.b.preview.example.com", false),
      ("http://x.preview.example.com", false),
      ("https://x.preview.example.com:8443", false),
      ("https://x.preview.example.com.evil.example", false),
      ("https://xpreview.example.com", false),
      ("https://x.preview.example.org", false),
      ("https://127.0.0.1", false),
    ])
  func star(_ origin: String, _ isMatch: Bool) throws {
    let origin = try Origin(origin)
    let origins = AllowedOrigins.only([try OriginPattern("https://*.preview.example.com")])
    #expect(origins.allows(origin) == isMatch)
    let policy = AccessPolicy(clients: [Client(id: "web", credential: .origin, origins: origins)], anonymous: nil)
    #expect((policy.client(of: origin) != nil) == isMatch)
    #expect(policy.mayRead(origin) == isMatch)
  }

  @Test("an address matches no subdomain pattern")
  func addresses() throws {
    for origin in ["https://[::1]", "https://10.0.0.1", "http://localhost"] {
      #expect(!AllowedOrigins.only([try OriginPattern("https://*.0.0.example")]).allows(try Origin(origin)))
    }
  }
}
