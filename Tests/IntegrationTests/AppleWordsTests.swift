import JSON
import TestSupport
import Testing

@Suite("What Apple says in a response that the server replaces")
struct AppleWordsTests {
  private static func response(_ status: Int, _ type: String, _ content: String) -> String {
    "HTTP/1.1 \(status) X\r\nContent-Type: \(type)\r\nRetry-After: 7\r\nX-Apple-Jingle-Correlation-Key: KEY7\r\n"
      + "X-Apple-Request-UUID: uuid-1\r\nContent-Length: \(content.utf8.count)\r\n\r\n\(content)"
  }

  private static let document =
    #"{"errors":[{"id":"Q3","title":"Upstream Service Error","detail":"d","status":"503","code":"50301"}]}"#

  @Test("reaches the caller, its page and the access log")
  func words() throws {
    let upstream = try RawUpstream(["failed": Self.response(503, "application/json", Self.document)])
    let settings = [
      "ACCESS_CLIENTS": "[{ id: 'web', origins: ['https://app.example.com'], catalog: true, me: true }]",
      "CATALOG_ME": "true",
    ]
    let server = try upstream.serve(try Ground(), settings)
    let page = ["-H", "Origin: https://app.example.com", "-H", "Music-User-Token: user"]
    for path in ["/v1/catalog/us/songs/failed", "/v1/me/library/failed"] {
      let response = try ParsedResponse(curl: page + ["\(server.url)\(path)"])
      #expect(response.status == 502 && response.errorCode == "upstream_error")
      let meta = response.error?["meta"]
      #expect(meta?["status"]?.string == "503" && meta?["code"]?.string == "50301" && meta?["id"]?.string == "Q3")
      #expect(meta?["title"]?.string == "Upstream Service Error")
      #expect(meta?["correlationKey"]?.string == "KEY7" && meta?["requestUUID"]?.string == "uuid-1")
      #expect(meta?["retryAfter"]?.string == "7")
      #expect(response["X-Apple-Jingle-Correlation-Key"] == "KEY7" && response["X-Apple-Request-UUID"] == "uuid-1")
      #expect(response["Retry-After"] == "7")
      let exposed = try #require(response["Access-Control-Expose-Headers"])
      #expect(exposed.contains("X-Apple-Jingle-Correlation-Key") && exposed.contains("X-Apple-Request-UUID"))
    }
    server.stop()
    #expect(server.accessLines.count == 2)
    for line in server.accessLines {
      #expect(line["upstream.status"]?.integer == 503 && line["upstream.code"]?.string == "50301")
      #expect(line["upstream.id"]?.string == "Q3" && line["upstream.title"]?.string == "Upstream Service Error")
      #expect(line["upstream.retry_after"]?.string == "7")
      #expect(line["upstream.correlation_key"]?.string == "KEY7" && line["upstream.request_uuid"]?.string == "uuid-1")
    }
  }

  @Test(
    "in HTML never reaches a browser as a page of this origin",
    arguments: [(200, 502), (403, 502), (404, 502), (302, 502)])
  func html(_ sent: Int, _ status: Int) throws {
    let upstream = try RawUpstream(["page": Self.response(sent, "text/html", "<script>alert(1)</script>")])
    let server = try upstream.serve(try Ground(), CatalogGround.forEverybody)
    let response = try server.request("/v1/catalog/us/songs/page")
    #expect(response.status == status && response["Content-Type"] == "application/json")
    #expect(response.error?["meta"]?["status"]?.string == "\(sent)" && !response.text.contains("<script>"))
    #expect(response["Content-Security-Policy"]?.hasPrefix("default-src 'none'") == true)
    let own = try server.request("/v1/me/library/page", "-H", "Music-User-Token: user")
    #expect(own.status == (sent == 403 ? 403 : 502) && !own.text.contains("<script>"))
  }
}
