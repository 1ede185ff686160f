import Bytes
import Cryptography
import HTTP1
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("An entry of the shared cache")
struct SharedEntryTests {
  static let target = CacheKey("/v1/catalog/us/albums/1?include=tracks")
  static let sent: FieldLines = [.accept: "application/json", .acceptEncoding: "gzip"]
  static let credential = "Bearer eyJhbGciOiJFUzI1NiJ9.secret"

  static func codec(
    secret: UInt8 = 1, upstream: String = "https://api.music.apple.com", team: String = "TEAM123456"
  ) throws -> SharedEntryCodec {
    let secret = SecretBytes(copying: [UInt8](repeating: secret, count: 32).span)
    return SharedEntryCodec(authenticator: try MessageAuthenticator(key: secret), upstream: upstream, team: team)
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let status: HTTPResponse.Status
    let fields: FieldLines
    let body: [UInt8]
    var isGzipped = false
    var isCompressed = false

    init(
      _ description: String, _ fields: FieldLines, _ body: [UInt8], status: HTTPResponse.Status = .ok,
      isGzipped: Bool = false, isCompressed: Bool = false
    ) {
      (testDescription, self.status, self.fields, self.body) = (description, status, fields, body)
      (self.isGzipped, self.isCompressed) = (isGzipped, isCompressed)
    }

    func response() throws -> StoredResponse {
      let (fields, body) =
        isGzipped ? (self.fields.with("Content-Encoding", "gzip"), try #require(Gzip.deflate(body))) : (fields, body)
      let response = try Sample.response(
        status, fields.with("X-Unknown", "a"), body: body, sent: sent.with("Authorization", credential), at: 0, delay: 3
      )
      return isCompressed ? response.compressed() : response
    }
  }

  static let json: FieldLines = [.contentType: "application/json"]

  static let cases: [Case] = [
    Case("of a text", json, Array("{}".utf8)),
    Case("without content", json, [], status: .notFound),
    Case("that arrived gzipped", json.with("ETag", "\"1\""), Sample.json(3000), isGzipped: true),
    Case("that was gzipped here", json.with("ETag", "\"1\""), Sample.json(3000), isCompressed: true),
    Case("that gzip makes no shorter", [.contentType: "image/png"], [0, 255, 1], isCompressed: true),
    Case("that may be gzipped later", json, Sample.json(3000)),
    Case(
      "with an age, a date and a lifetime",
      json.with("Age", "7").with("Date", Sample.date(-9)).with("Cache-Control", "max-age=60"), [1]),
    Case("that varies", json.with("Vary", "Accept, Accept-Language"), [1]),
    Case(
      "that may be used stale", json.with("Cache-Control", "max-age=1, stale-while-revalidate=9, stale-if-error=99"),
      [1]),
    Case("of a redirection", [.location: "/v1/catalog/de"], [], status: .movedPermanently),
    Case("with obsolete text in a field", json.with("Content-Language", "ü"), [1]),
  ]

  /// Encodes and decodes, at the same moment.
  private func copy(of response: StoredResponse, now: CacheTime = Sample.time(5)) throws -> StoredResponse {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let entry = try #require(codec.encode(response, for: key, now: now))
    return try #require(
      codec.decode(entry.bytes, for: key, sending: Self.sent, now: now, settings: CacheSettings()))
  }

  @Test("is the same response for every caller", arguments: cases)
  func roundTrip(_ sample: Case) throws {
    let (response, now) = (try sample.response(), Sample.time(5))
    let decoded = try copy(of: response)
    #expect(decoded.status == response.status && decoded.isStorable)
    for coding in [ContentCoding.identity, .gzip] {
      let (one, other) = (response.representation(coding), decoded.representation(coding))
      #expect(one.body == other.body)
      #expect(one.fields.lines == other.fields.lines)
      #expect(one.notModified.lines == other.notModified.lines)
    }
    #expect(decoded.awaitsCompression == response.awaitsCompression)
    #expect(decoded.validators == response.validators)
    let (mine, theirs) = (Selection(response, now: now), Selection(decoded, now: now))
    #expect(mine.age == theirs.age && mine.timeToLive == theirs.timeToLive)
    let status = CacheStatus(.hit)
    #expect(mine.fields(status, isValidated: false) == theirs.fields(status, isValidated: false))
    #expect(decoded.judged.selector == response.judged.selector)
    #expect(decoded.judged.freshness == response.judged.freshness)
    let again = try copy(of: decoded)
    #expect(again.representation(.gzip).body == decoded.representation(.gzip).body)
  }

  @Test("with any byte cut off or changed is a miss", arguments: cases)
  func damage(_ sample: Case) throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let now = Sample.time(5)
    let entry = try #require(codec.encode(try sample.response(), for: key, now: now)).bytes
    func isMiss(_ bytes: [UInt8]) -> Bool {
      codec.decode(bytes, for: key, sending: Self.sent, now: now, settings: CacheSettings()) == nil
    }
    #expect(!isMiss(entry))
    #expect(entry.indices.allSatisfy { isMiss(Array(entry[..<$0])) })
    #expect(isMiss(entry + [0]))
    #expect(
      entry.indices.allSatisfy { index in
        (0..<8).allSatisfy { bit in
          var changed = entry
          changed[index] ^= 1 << bit
          return isMiss(changed)
        }
      })
  }

  @Test("of another key, secret, upstream, team or version is a miss")
  func foreign() throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let other = try #require(codec.key(of: CacheKey("/v1/catalog/us/albums/2"), sending: Self.sent))
    let response = try Sample.response(.ok, Self.json)
    let now = Sample.time(0)
    let entry = try #require(codec.encode(response, for: key, now: now)).bytes
    func isMiss(_ bytes: [UInt8], _ codec: SharedEntryCodec, _ key: SharedEntryKey) -> Bool {
      codec.decode(bytes, for: key, sending: Self.sent, now: now, settings: CacheSettings()) == nil
    }
    #expect(!isMiss(entry, codec, key))
    #expect(isMiss(entry, codec, other))
    // Also if the entry says that it is of the other key.
    var moved = entry
    for (index, byte) in other.bytes.enumerated() { moved[33 + index] = byte }
    #expect(isMiss(moved, codec, other))
    #expect(isMiss(entry, try Self.codec(secret: 2), key))
    var newer = entry
    newer[32] = SharedEntryCodec.version + 1
    #expect(isMiss(newer, codec, key))
    let keys = [
      key, other,
      try Self.codec(secret: 2).key(of: Self.target, sending: Self.sent),
      try Self.codec(upstream: "https://api.music.apple.co").key(of: Self.target, sending: Self.sent),
      try Self.codec(upstream: "https://api.music.apple.comT", team: "EAM123456").key(
        of: Self.target, sending: Self.sent),
      try Self.codec(team: "TEAM654321").key(of: Self.target, sending: Self.sent),
      codec.key(of: Self.target, sending: [.accept: "application/json", .acceptEncoding: "identity"]),
      codec.key(of: Self.target, sending: [.accept: "application/jsonAccept-Encodinggzip"]),
      codec.key(of: Self.target, sending: [:]),
    ]
    #expect(Set(keys).count == keys.count)
    var lowercase = FieldLines()
    lowercase.append("accept", Array("application/json".utf8).span)
    lowercase.append("ACCEPT-encoding", Array("gzip".utf8).span)
    #expect(key == codec.key(of: Self.target, sending: lowercase))
    #expect(codec.key(of: Self.target, sending: Self.sent.with("Music-User-Token", "a")) == nil)
  }

  @Test("has no byte of the credential or of another field of the request")
  func secrecy() throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let response = try Sample.response(
      .ok, Self.json.with("X-Private", "whose"), sent: Self.sent.with("Authorization", Self.credential))
    let entry = String(
      decoding: try #require(codec.encode(response, for: key, now: Sample.time(0))).bytes, as: UTF8.self)
    for text in ["eyJ", "secret", "Bearer", "albums", "TEAM123456", "Authorization"] { #expect(!entry.contains(text)) }
    #expect(entry.contains("X-Private"), "the sample forwards all fields to callers")
  }

  static let unshared: [FieldLines] = [
    [.cacheControl: "private"], [.cacheControl: "no-store"], [.setCookie: "a=b"], [.vary: "*"],
    [.cacheControl: "max-age=60, private"], [.cacheControl: "no-cache", .eTag: "\"1\""],
    [.cacheControl: "no-store, must-understand", .setCookie: "a=b"], [.contentRange: "bytes 0-1/2"],
    [.contentEncoding: "br"], [.cacheControl: "max-age=0, must-revalidate", .eTag: "\"1\""],
  ]

  @Test("is not made of a response that is private, or of no use without a request to Apple", arguments: unshared)
  func refusal(_ fields: FieldLines) throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    #expect(codec.encode(try Sample.response(.ok, fields), for: key, now: Sample.time(0)) == nil)
    #expect(codec.encode(try Sample.response(.internalServerError, [:]), for: key, now: Sample.time(0)) == nil)
  }

  static let lifetimes: [(String, age: Int, lifetime: Int?, stale: Int)] = [
    ("max-age=60, stale-if-error=0", 0, 60, 0), ("max-age=60, stale-if-error=0", 50, 10, 0),
    ("max-age=60, stale-if-error=0", 60, nil, 0), ("max-age=60, stale-if-error=30", 0, 90, 30),
    ("max-age=60, stale-while-revalidate=40, stale-if-error=30", 0, 100, 40),
    ("max-age=60, stale-if-error=30", 80, 10, 10), ("max-age=60, must-revalidate", 0, 60, 0),
    ("max-age=60", 0, 60 + 86_400, 86_400), ("max-age=9999999", 0, 604_800, 0),
    ("max-age=604700", 0, 604_800, 100),
  ]

  @Test("stays for its lifetime and the longest stale use, at most 7 days", arguments: lifetimes)
  func expiry(_ control: String, _ age: Int, _ lifetime: Int?, _ stale: Int) throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let response = try Sample.response(.ok, [.cacheControl: control])
    let entry = codec.encode(response, for: key, now: Sample.time(age))
    #expect(entry?.lifetime == lifetime)
    guard let entry else { return }
    let offset = SharedEntryCodec.staleOffset
    #expect(entry.bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } == stale)
  }

  @Test(
    "ages by the wall clock, whatever the reader's other clock says, and an entry from the future is new",
    arguments: [(0, 12), (10, 22), (1000, 1012), (-5, 12), (-86_400, 12)])
  func age(_ seconds: Int, _ age: Int) throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let response = try Sample.response(.ok, Self.json.with("Age", "10").with("Date", Sample.date(-12)), delay: 2)
    let entry = try #require(codec.encode(response, for: key, now: Sample.time(0)))
    // The reader's monotonic clock began at another time.
    let now = CacheTime(monotonic: 7, wall: Sample.start + seconds)
    let decoded = try #require(
      codec.decode(entry.bytes, for: key, sending: Self.sent, now: now, settings: CacheSettings()))
    #expect(Selection(decoded, now: now).age == age)
    let later = CacheTime(monotonic: 7 + 3_000_000_000, wall: now.wall + 3)
    #expect(Selection(decoded, now: later).age == age + 3)
  }

  @Test("is judged by the settings of its reader")
  func settings() throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let entry = try #require(codec.encode(try Sample.response(.ok, Self.json), for: key, now: Sample.time(0))).bytes
    var settings = CacheSettings()
    (settings.lifetime, settings.isPublic) = (20, true)
    let decoded = try #require(
      codec.decode(entry, for: key, sending: Self.sent, now: Sample.time(5), settings: settings))
    #expect(Selection(decoded, now: Sample.time(5)).timeToLive == 15)
    #expect(decoded.representation(.identity).fields.value("Cache-Control") == "public, max-age=20")
  }

  @Test("with more content than the reader allows is a miss, also if gzip hides it")
  func size() throws {
    let codec = try Self.codec()
    let key = try #require(codec.key(of: Self.target, sending: Self.sent))
    let response = try Sample.response(.ok, Self.json, body: [UInt8](repeating: 32, count: 500_000)).compressed()
    let entry = try #require(codec.encode(response, for: key, now: Sample.time(0))).bytes
    #expect(entry.count < 2000)
    var settings = CacheSettings()
    for (limit, isMiss) in [(500_000, false), (499_999, true)] {
      settings.largestContent = limit
      let decoded = codec.decode(entry, for: key, sending: Self.sent, now: Sample.time(0), settings: settings)
      #expect((decoded == nil) == isMiss)
    }
  }
}

extension FieldLines {
  /// These lines and another one.
  fileprivate func with(_ name: String, _ value: String) -> FieldLines {
    var lines = self
    if let name = HTTPField.Name(name) { lines.append(HTTPField(name: name, value: value)) }
    return lines
  }
}
