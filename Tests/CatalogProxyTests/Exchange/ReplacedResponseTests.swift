import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import HTTPCache
@testable import UpstreamAdmission

@Suite("A response of Apple's that the server replaces")
struct ReplacedResponseTests {
  private static let song = "/v1/catalog/us/songs/1"
  private static let json = "application/json;charset=utf-8"
  private static let correlation: FieldLines = [
    .contentType: json, .literal("X-Apple-Jingle-Correlation-Key"): "KEY7", .literal("x-apple-request-uuid"): "uuid-1",
  ]
  private static let document =
    #"{"errors":[{"id":"Q3","title":"Upstream Service Error","detail":"secret","status":"500","code":"50001"}]}"#

  private static let words = ReplacedResponse(
    status: 500, code: "50001", id: "Q3", title: "Upstream Service Error", correlationKey: "KEY7", requestUUID: "uuid-1"
  )

  @Test(
    "a 5xx leaves Apple's words in the error, for each caller",
    arguments: [(song, nil), ("/v1/me/library/songs", "user"), ("\(song)?include=library", "user")]
      as [(String, String?)])
  func words(_ target: String, _ user: String?) async throws {
    let ground = ProxyGround { _ in .scripted(.internalServerError, Self.correlation, Self.document) }
    let failure = try #require(try await ground.ask(target, user: user).failure)
    #expect(failure.code == .upstreamError && failure.replaced == Self.words)
    #expect(ground.proxy.status.inFlight == 0)
  }

  @Test(
    "content that is no short error document of Apple's costs only its words",
    arguments: [
      ("[]", json), ("{}", json), (#"{"errors":[]}"#, json), (#"{"errors":[{"code":50001}]}"#, json), ("", json),
      (#"{"errors":[{"code":"a\u0007"}]}"#, json), (document, "text/html"), ("<html>", json), (document, "text/json-x"),
      (#"{"errors":[{"code":"\#(String(repeating: "a", count: 201))"}]}"#, json),
      (document + String(repeating: " ", count: 16_384), json), (String(repeating: "[", count: 9000), json),
    ])
  func nothing(_ content: String, _ type: String) async throws {
    let ground = ProxyGround { _ in
      .scripted(.badGateway, [.contentType: type, .literal("X-Apple-Request-UUID"): "u\u{e9}"], content)
    }
    let failure = try #require(try await ground.ask(Self.song).failure)
    #expect(failure.replaced == ReplacedResponse(status: 502))
  }

  @Test("a document in gzip is read")
  func gzip() async throws {
    let content = try #require(Gzip.deflate(Array((Self.document + String(repeating: " ", count: 200)).utf8)))
    var fields = Self.correlation
    fields[.contentEncoding] = "gzip"
    let ground = ProxyGround { [fields] _ in
      UpstreamResponse(status: .internalServerError, fields: fields, content: BytesContent(content))
    }
    #expect(try await ground.ask(Self.song).failure?.replaced == Self.words)
  }

  @Test("a document that does not come holds the caller up for a second")
  func stalled() async throws {
    let content = StalledContent()
    let ground = ProxyGround { _ in
      UpstreamResponse(status: .internalServerError, fields: Self.correlation, content: content)
    }
    let call = try ground.call(Self.song)
    let reply = Task { await ground.respond(call) }
    try await until("the wait is bounded") { ground.time.pauses == 1 }
    ground.time.advance(by: .milliseconds(999))
    #expect(!content.isCancelled)
    ground.time.advance(by: .milliseconds(1))
    let replaced = await reply.value.failure?.replaced
    #expect(replaced == ReplacedResponse(status: 500, correlationKey: "KEY7", requestUUID: "uuid-1"))
  }

  @Test(
    "Retry-After of any 5xx passes on",
    arguments: [(503, "7", "7"), (500, "1", "1"), (503, "soon", nil), (503, nil, nil)] as [(Int, String?, String?)])
  func retryAfter(_ status: Int, _ sent: String?, _ passed: String?) async throws {
    var fields: FieldLines = [:]
    if let sent { fields[.retryAfter] = sent }
    let ground = ProxyGround { [fields] _ in .scripted(.init(code: status), fields, "") }
    #expect(try await ground.ask(Self.song).failure?.fields[.retryAfter] == passed)
  }

  @Test("429 and 401 leave Apple's words as well")
  func others() async throws {
    var fields = Self.correlation
    fields[.retryAfter] = "90"
    for (status, code) in [(429, ErrorCode.upstreamRateLimited), (401, .developerTokenRejected)] {
      let ground = ProxyGround { [fields] _ in
        UpstreamResponse(status: .init(code: status), fields: fields, content: BytesContent(Array(Self.document.utf8)))
      }
      let failure = try #require(try await ground.ask(Self.song).failure)
      #expect(failure.code == code)
      #expect(failure.replaced?.status == status && failure.replaced?.code == "50001")
      #expect(failure.replaced?.correlationKey == "KEY7")
    }
  }

  @Test("a stale response in place of a failure leaves Apple's words in the log")
  func stale() async throws {
    let fresh: FieldLines = [.cacheControl: "max-age=1, stale-if-error=600"]
    let ground = ProxyGround { _ in .scripted(.ok, fresh) }
    _ = try await ground.ask(Self.song)
    ground.time.advance(by: .seconds(60))
    ground.upstream.respond { _ in .scripted(.internalServerError, Self.correlation, Self.document) }
    guard case .response(let response) = try await ground.ask(Self.song) else {
      Issue.record("no response")
      return
    }
    #expect(response.status == .ok && response.replaced == Self.words)
    #expect(response.fields[.literal("X-Apple-Jingle-Correlation-Key")] == "KEY7")
  }

  @Test(
    "a 403 passes on if it is Apple's verdict on a user, or JSON",
    arguments: [
      (song, nil, json, 403, true), (song, nil, "text/html", 502, false), (song, nil, nil, 502, false),
      (song, "user", "text/html", 502, false), ("/v1/storefronts", nil, "text/plain", 502, false),
      ("\(song)?include=library", "user", json, 403, true),
      ("\(song)?include=library", "user", "text/html", 403, false),
      ("/v1/me/library/songs", "user", json, 403, true), ("/v1/me/library/songs", "user", "text/html", 403, false),
      ("/v1/me/library/songs", "user", nil, 403, true), ("/v1/me/library/songs", nil, "text/html", 502, false),
    ] as [(String, String?, String?, Int, Bool)])
  func forbidden(_ target: String, _ user: String?, _ type: String?, _ status: Int, _ passes: Bool) async throws {
    var fields: FieldLines = [:]
    if let type { fields[.contentType] = type }
    let ground = ProxyGround { [fields] _ in .scripted(.forbidden, fields, "<html>") }
    let reply = try await ground.ask(target, user: user)
    #expect(reply.status == status)
    #expect((reply.failure == nil) == passes)
    if let failure = reply.failure { #expect(failure.replaced?.status == 403 && !failure.detail.contains("<html>")) }
  }

  @Test(
    "only content that a browser runs in no case passes",
    arguments: [
      (json, true), ("application/vnd.api+json", true), ("APPLICATION/JSON", true), ("text/plain", true), (nil, true),
      ("image/jpeg", true), ("application/octet-stream", true), ("text/html", false),
      ("Text/HTML; charset=utf-8", false),
      ("application/xhtml+xml", false), ("image/svg+xml", false), ("text/xml", false), ("application/xml", false),
      ("application/javascript", false), ("text/css", false), ("application/pdf", false), ("text", false), ("", false),
      ("text/html,application/json", false), ("multipart/x-mixed-replace", false), ("application/json\u{a0}", false),
      ("application/json;,text/html", false), ("application/json;charset=utf-8,text/html;charset=utf-8", false),
      ("text/plain;a,image/svg+xml", false), ("application/json\ttext/html", false), ("image/png ; a=b", true),
    ] as [(String?, Bool)])
  func types(_ type: String?, _ passes: Bool) async throws {
    var fields: FieldLines = [:]
    if let type { fields[.contentType] = type }
    for (target, user) in [(Self.song, nil), ("/v1/me/library/songs", "user")] as [(String, String?)] {
      for status in [200, 404] {
        let ground = ProxyGround { [fields] _ in .scripted(.init(code: status), fields, "<script>") }
        let reply = try await ground.ask(target, user: user)
        #expect(reply.status == (passes ? status : 502), "\(target)")
        if let failure = reply.failure {
          #expect(failure.code == .upstreamError && failure.detail.contains("status \(status)"))
          #expect(!failure.detail.contains("<script>") && failure.replaced?.status == status)
        }
      }
    }
  }

  @Test(
    "a 401 passes on if Apple accepts the developer token, but never as a page",
    arguments: [
      ("/v1/me/library/songs", "user", json, 401), ("/v1/me/library/songs", "user", nil, 401),
      ("/v1/me/library/songs", "user", "text/html", 502), ("/v1/me/library/songs", "user", "image/svg+xml", 502),
      ("\(song)?include=library", nil, "text/html", 502), ("\(song)/library", "user", "text/html", 502),
    ] as [(String, String?, String?, Int)])
  func unauthorized(_ target: String, _ user: String?, _ type: String?, _ status: Int) async throws {
    var fields: FieldLines = [:]
    if let type { fields[.contentType] = type }
    let ground = ProxyGround { [fields] request in
      request.target == "/v1/test" ? .scripted(.ok, [:], "") : .scripted(.unauthorized, fields, "<script>")
    }
    let reply = try await ground.ask(target, user: user)
    #expect(reply.status == status)
    #expect((reply.failure == nil) == (status == 401))
  }

  @Test("an empty 401 to a user's request passes on, whatever its type says")
  func emptyUnauthorized() async throws {
    let ground = ProxyGround { request in
      .scripted(request.target == "/v1/test" ? .ok : .unauthorized, [.contentType: "text/html"], "")
    }
    #expect(try await ground.ask("/v1/me/library/songs", user: "user").status == 401)
  }

  @Test("a response that a music user token may change says so to other caches")
  func vary() async throws {
    let ground = ProxyGround { _ in .scripted(.ok, [.contentType: Self.json, .cacheControl: "max-age=60"]) }
    for (target, isUsers) in [
      (Self.song, false), ("\(Self.song)?extend=inFavorites", true), ("\(Self.song)/library", true),
    ] {
      for _ in 0..<2 {
        guard case .response(let response) = try await ground.ask(target) else {
          Issue.record("no response")
          continue
        }
        let lines = String(decoding: response.prepared.bytes, as: UTF8.self)
        #expect(lines.contains("Music-User-Token, Media-User-Token") == isUsers, "\(lines)")
      }
    }
    #expect(ground.upstream.requests.count == 3, "each is stored")
  }

  @Test("what passes has nosniff and a policy that runs nothing, stored or not")
  func policy() async throws {
    let ground = ProxyGround { _ in .scripted(.ok, [.contentType: Self.json, .cacheControl: "max-age=60"]) }
    for (target, user) in [(Self.song, nil), (Self.song, nil), ("/v1/me/library/songs", "user")] as [(String, String?)]
    {
      guard case .response(let response) = try await ground.ask(target, user: user) else {
        Issue.record("no response")
        continue
      }
      let fields = response.prepared.fields + response.encoded.fields
      #expect(fields[.contentSecurityPolicy]?.hasPrefix("default-src 'none'") == true)
      #expect(fields[.xContentTypeOptions] == "nosniff")
    }
  }
}

/// Content that does not come.
private final class StalledContent: ContentReader {
  private let end = OneShot<Void>()
  private let state = Locked(false)

  var isCancelled: Bool { state.withLock { $0 } }

  func read() async throws(ContentError) -> [UInt8]? {
    await end.get()
    throw .cancelled
  }

  func cancel() {
    state.withLock { $0 = true }
    end.resume(())
  }
}

/// Content of bytes.
private final class BytesContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement: one task reads it.
  private var bytes: [UInt8]?

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  func read() async throws(ContentError) -> [UInt8]? { bytes.take() }

  func readAtOnce() throws(ContentError) -> AvailableContent { bytes.take().map { .part($0) } ?? .end }

  func cancel() { bytes = nil }
}
