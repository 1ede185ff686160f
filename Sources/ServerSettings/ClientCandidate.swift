import Access
import Bytes
import HTTPMessages

/// The valid part of an element of `access.clients`, to compare it with the others, so that one error hides no other.
struct ClientCandidate {
  /// What identifies the client, without the origins that only restrict another credential.
  var marks: [ClientConflict.Mark] = []
  var origins: [OriginPattern] = []
  /// The rules for the client's JWTs, if the parts that distinguish them from another client's are valid.
  var rules: JWTRules?
  /// The file with the key set of the client's identity provider. Nil if the server fetches that.
  var keySetFile: String?
  /// Where it fetches that key set, or the discovery document that says where.
  var provider: Origin?
  /// The file of the authorities for the provider. Nil for the system's.
  var caFile: String?
  var client: Client?
}

extension ClientCandidate {
  static let id = Setting("id", .clientID, example: #""android""#, "Its name, in logs and metrics. Required.")
  static let origins = Setting(
    "origins", .elements(of: .originPattern, atMost: 1000), example: #"["https://app.example.com"]"#,
    "Its web origins, exact or with a star as the first label of the host. They identify the client, or restrict it "
      + "if it has a credential.")
  static let token = Setting("token", .bool, default: true, "Whether it gets tokens.")
  static let catalog = Setting("catalog", .bool, default: false, "Whether it gets Apple's catalog.")
  static let me = Setting("me", .bool, default: false, "Whether it may use `/v1/me/…`; needs `catalog.me`.")
  static let ttl = Setting(
    "ttl", .duration(seconds: 60...Settings.Token.cap), example: #""12h""#,
    "The lifetime of its tokens, and the longest that it may request. Default: `token.ttl` and `token.maxTTL`.")
  static let storefronts = Setting(
    "storefronts", .elements(of: .storefront, atMost: 300, ifEmpty: "name some, or leave it out for all"),
    example: #"["us", "gb"]"#, "The storefronts whose catalog it gets. Default: all.")
  static let share = Setting(
    "share", .share, example: "0.5",
    "The part of the [concurrent requests to Apple](catalog.md#shares) that it may have. Default: seven eighths.")
  static let rateLimit = Setting(
    "rateLimit", Rates.type, example: "{ perSecond: 5, burst: 20 }",
    "How often each of its callers may send requests; see [rates](#rates). Default: no limit.")

  static let known: [any SettingRow] =
    [id, apiKey, jwt, clientCertificate, origins, token, catalog, me, ttl, storefronts, share, rateLimit]

  init(_ reader: inout SettingsReader, within context: Settings.Access.ValidationContext) {
    reader.require(Self.id.path, remedy: "write a name such as \"android\"")
    let id = reader.read(Self.id)
    marks = id.map { [.id($0)] } ?? []
    let origins = readOrigins(&reader)
    // Invalid origins are already reported.
    let hasOrigins = origins.map { !$0.isEmpty } ?? reader.isSet(Self.origins.path)
    let credential = readCredential(&reader, hasOrigins: hasOrigins)
    let token = reader.read(Self.token)
    let catalog = reader.read(Self.catalog)
    let me = reader.read(Self.me)
    let ttl = reader.read(Self.ttl)
    if let ttl, let most = context.token?.maxTTL, ttl > most {
      reader.reject(Self.ttl.path, "is more than token.maxTTL", remedy: "write at most that, or raise token.maxTTL")
    }
    let storefronts = reader.readList(Self.storefronts)
    let share = reader.read(Self.share)
    let rates = reader.readObject(Self.rateLimit) { Rates(&$0, within: context) }
    Self.checkWorth(&reader, token: token, catalog: catalog, me: me, within: context)
    if case .certificate = credential, !context.requestsCertificates {
      reader.reject(
        Self.clientCertificate.path, "has no effect, because the server requests no client certificate",
        remedy: "name the CAs that sign client certificates in server.tls.clientCAFile")
    }
    guard reader.errors.isEmpty, let id, let credential, let token, let catalog, let me else { return }
    client = Client(
      id: id, credential: credential, origins: .only(origins?.whole() ?? []), token: token, catalog: catalog, me: me,
      ttl: ttl.map { Int($0.components.seconds) }, storefronts: storefronts.map(Set.init), rate: rates?.each,
      totalRate: rates?.total, isStrict: rates?.isStrict ?? false, countsAddresses: rates?.unit == .address,
      share: share)
  }

  private mutating func readOrigins(_ reader: inout SettingsReader) -> [OriginPattern?]? {
    let origins = reader.readElements(Self.origins)
    self.origins = origins?.compactMap { $0 } ?? []
    if !Self.credentials.contains(where: reader.isSet) {
      marks += self.origins.map { .origin($0) }
    } else if origins?.isEmpty ?? false {
      // An empty list would remove the restriction to web origins.
      reader.reject(Self.origins.path, "is empty", remedy: "name some, or leave it out for callers from any origin")
    }
    return origins
  }

  /// Reports permissions without effect, and clients without any permission.
  private static func checkWorth(
    _ reader: inout SettingsReader, token: Bool?, catalog: Bool?, me: Bool?,
    within context: Settings.Access.ValidationContext
  ) {
    guard let token, let catalog, let me else { return }
    if !token, !catalog, !me {
      reader.reject("", "is a client without any permission", remedy: "turn token, catalog or me on, or remove it")
    }
    if !context.isCatalogEnabled, catalog || me, !token {
      reader.reject(
        "", "is a client without any permission, because catalog.enabled is false",
        remedy: "turn catalog.enabled or the client's token on")
    }
    if me, context.catalog?.me == false {
      reader.reject(
        Self.me.path, "has no effect while catalog.me is false", remedy: "turn catalog.me on, or leave this out")
    }
  }
}

/// The credential of a client. A client without a credential is identified by its origins.
extension ClientCandidate {
  static let apiKey = Setting(
    "apiKey", .elements(of: .object(of: [digest], remedy: "write { sha256: \"…\" }"), atMost: 100),
    example: #"{ sha256: "\#(exampleDigest)" }"#, "An API key, or a list of several.")
  static let digest = Setting(
    "sha256", .elements(of: .apiKeyDigest, atMost: 100), example: #""\#(exampleDigest)""#,
    "The SHA-256 of the key, as `new-api-key` prints it, or a list of several. Required.")
  static let jwt = Setting(
    "jwt", .object(of: JWT.known, remedy: "write { issuer: …, audience: … }"),
    example: #"{ issuer: "https://id.example.com/", audience: "music", jwksFile: "jwks.json" }"#,
    "The JWTs of an identity provider.")
  static let clientCertificate = Setting(
    "clientCertificate", .object(of: [name], remedy: "write { san: \"spiffe://example.com/partner\" }"),
    example: #"{ san: "spiffe://example.com/partner" }"#, "A TLS client certificate; needs `server.tls.clientCAFile`.")
  static let name = Setting(
    "san", .elements(of: .subjectName, atMost: 100, ifEmpty: "name one"), example: #""spiffe://example.com/partner""#,
    "A subject alternative name of the certificate, or a list of several, of which it has one: a URI, a DNS name or an "
      + "e-mail address. Required.")

  /// The settings of which at most one is allowed.
  static let credentials = [apiKey.path, jwt.path, clientCertificate.path]
  private static let exampleDigest = String(repeating: "0123456789abcdef", count: 4)

  enum JWT {
    static let issuer = Setting(
      "issuer", .label("write the token's iss, \(text)"), example: #""https://id.example.com/""#,
      "The `iss` of the JWT, byte for byte. Required.")
    static let audience = Setting(
      "audience", .elements(of: .label("write the token's aud, \(text)"), atMost: 100, ifEmpty: "name one"),
      example: #""music""#,
      "A value that `aud` has, or a list of which it has one. Required, unless `requiredClaims` names the "
        + "[application](#tokens-without-aud).")
    static let jwksURL = Setting(
      "jwksURL", .secureURL, example: #""https://id.example.com/.well-known/jwks.json""#,
      "Where the provider publishes its [keys](#keys-of-identity-providers). Default: as the discovery document of the "
        + "`issuer` says.")
    static let jwksFile = Setting("jwksFile", .path, example: #""jwks.json""#, "A file with a copy of the keys.")
    static let caFile = Setting(
      "caFile", .path, example: #""internal-ca.pem""#,
      "PEM, the CAs that the server trusts for the provider. Default: the system's store.")
    static let algorithms = Setting(
      "algorithms", .elements(of: SettingType<JWTAlgorithm>.word, atMost: 10, ifEmpty: "leave it out for all"),
      example: #"["ES256", "EdDSA"]"#, "The algorithms of signatures that the server accepts. Default: all.")
    static let requiredClaims = Setting(
      "requiredClaims", .object(of: [], remedy: "write { scope: \"music\" }"), example: #"{ scope: "music" }"#,
      "More claims that the JWT must have, each with its value, or with a list of which it has one.")

    static let known: [any SettingRow] = [issuer, audience, jwksURL, jwksFile, caFile, algorithms, requiredClaims]

    static func claim(_ name: String) -> Setting<SettingElements<String>> {
      let type = SettingType.elements(
        of: .label("write \(text)"), atMost: 100, ifEmpty: "write \(text), or leave it out")
      return Setting(name, type, "")
    }

    private static let text = "a text of at most 1024 characters"
  }

  mutating func readCredential(_ reader: inout SettingsReader, hasOrigins: Bool) -> Client.Credential? {
    let present = Self.credentials.filter(reader.isSet)
    let keys = readKeys(&reader)
    let jwt = reader.readObject(Self.jwt) { readJWT(&$0) }
    let names = readNames(&reader)
    guard present.count < 2 else {
      reader.reject(
        present[1], "is a second kind of credential beside \(present[0])",
        remedy: "write a separate client for each, with its own id")
      return nil
    }
    if present.isEmpty, !hasOrigins {
      reader.reject(
        "", "has neither a credential nor origins, so no request can come from this client",
        remedy: "write apiKey, jwt or clientCertificate, or origins for web pages")
      return nil
    }
    return keys.map(Client.Credential.apiKeys) ?? jwt ?? names.map(Client.Credential.certificate)
      ?? (present.isEmpty ? .origin : nil)
  }

  private mutating func readKeys(_ reader: inout SettingsReader) -> [APIKeyDigest]? {
    let keys = reader.readObjects(Self.apiKey) { key -> [APIKeyDigest]? in
      key.require(Self.digest.path, remedy: "write what new-api-key prints as SHA-256")
      let read = key.readElements(Self.digest)
      marks += read?.compactMap { $0.map { .digest($0) } } ?? []
      return read?.whole()
    }
    let whole = keys?.whole()?.flatMap { $0 }
    if whole?.isEmpty == true { reader.reject(Self.apiKey.path, "has no key", remedy: "write { sha256: \"…\" }") }
    return whole
  }

  private mutating func readNames(_ reader: inout SettingsReader) -> [SubjectName]? {
    reader.readObject(Self.clientCertificate) { certificate in
      certificate.require(Self.name.path, remedy: "write a subject alternative name of its certificate")
      let read = certificate.readElements(Self.name)
      marks += read?.compactMap { $0.map { .name($0) } } ?? []
      return read?.whole()
    }
  }

  private mutating func readJWT(_ reader: inout SettingsReader) -> Client.Credential? {
    reader.require(JWT.issuer.path, remedy: "write the token's iss")
    let issuer = reader.read(JWT.issuer)
    let audiences = reader.readList(JWT.audience)
    let algorithms = reader.readList(JWT.algorithms)
    let claims = reader.readObject(JWT.requiredClaims) { claims in
      claims.names.map { name in
        claims.readList(JWT.claim(name)).map { JWTRules.RequiredClaim(name: name, values: $0) }
      }.whole()
    }
    if !reader.isSet(JWT.audience.path) { Self.requireApplication(&reader, claims) }
    let source = readKeySource(&reader, issuer)
    guard let issuer, audiences != nil || !reader.isSet(JWT.audience.path),
      claims != nil || !reader.isSet(JWT.requiredClaims.path)
    else { return nil }
    let rules = JWTRules(
      issuer: issuer, audiences: audiences, requiredClaims: claims ?? [],
      algorithms: algorithms.map(Set.init) ?? Set(JWTAlgorithm.allCases))
    self.rules = rules
    return source.map { .jwt(rules, $0) }
  }

  /// A provider signs tokens for all of its applications, so `aud` or a claim must say that a token is for this one.
  private static func requireApplication(_ reader: inout SettingsReader, _ claims: [JWTRules.RequiredClaim]?) {
    guard let claims, !claims.isEmpty else {
      // Invalid claims are already reported, and may be what names the application.
      if !reader.isSet(JWT.requiredClaims.path) || claims?.isEmpty == true {
        reader.missing(
          JWT.audience.path,
          remedy: "write the token's aud. If tokens have none, name the application in requiredClaims, such as "
            + "{ client_id: \"…\" }")
      }
      return
    }
    guard !claims.contains(where: \.namesApplication) else { return }
    let names = claims.map(\.name).sorted().prefix(4).map { shown($0) }.joined(separator: ", ")
    let known = JWTRules.RequiredClaim.ofApplications.joined(separator: ", ")
    reader.missing(
      JWT.audience.path,
      "is not set, and \(names) in requiredClaims \(claims.count == 1 ? "does" : "do") not name the application "
        + "that a token is for, so a token for another application would count",
      remedy: "write the token's aud. If tokens have none, require one of \(known)")
  }

  private mutating func readKeySource(_ reader: inout SettingsReader, _ issuer: String?) -> KeySetSource? {
    let url = reader.read(JWT.jwksURL)
    (keySetFile, caFile) = (reader.read(JWT.jwksFile), reader.read(JWT.caFile))
    switch (reader.isSet(JWT.jwksFile.path), reader.isSet(JWT.jwksURL.path)) {
    case (true, true):
      reader.reject(JWT.jwksURL.path, "is set, and so is jwksFile", remedy: "keep one of the two")
      return nil
    case (false, false):
      guard let issuer else { return nil }
      do throws(InvalidValue) { provider = try ServiceURL(discoveryOf: issuer).origin } catch {
        reader.missing(
          JWT.jwksURL.path, "is not set",
          remedy:
            "write where the provider publishes its keys, an https URL, or jwksFile for a copy of them. The server "
            + "cannot find them by the issuer, because the issuer \(error)")
        return nil
      }
      return .issuer(issuer, caFile: caFile)
    case (true, false):
      if reader.isSet(JWT.caFile.path) {
        reader.reject(JWT.caFile.path, "has no effect beside jwksFile", remedy: "leave it out")
        caFile = nil
      }
      return keySetFile.map(KeySetSource.file)
    case (false, true):
      provider = url.flatMap { try? ServiceURL($0) }?.origin
      return url.map { .url($0, caFile: caFile) }
    }
  }
}

extension Client {
  /// Returns a warning for each limit of a permission that the callers do not have. The client is written at `path`.
  func vainLimits(at path: String) -> [String] {
    let limits = [
      ("ttl", "token", ttl != nil && !token), ("storefronts", "catalog", storefronts != nil && !catalog),
      ("share", "catalog", share != nil && !catalog && !me),
    ]
    return limits.filter(\.2).map { limit, permission, _ in
      "\(path).\(limit) has no effect without \(permission): true beside it. Write that, or remove it."
    }
  }
}

extension SettingType where Value == String {
  /// The name of a client, which appears in logs and as a label of metrics.
  static let clientID = string("write 1 to 64 letters, digits, dots, dashes and underscores, such as \"android\"") {
    (text, remedy) throws(InvalidValue) in
    guard APIKeyForm(of: text) == .other, !holdsAPIKey(text) else {
      throw InvalidValue(
        "is or contains an API key",
        remedy: "write a name, such as \"android\"; others may know this key now: make a new one with new-api-key")
    }
    guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(\.isOfName), text != "-" else {
      throw InvalidValue("\(quoted(text)) is not a valid client name", remedy: remedy)
    }
    guard text != Client.anonymousID, text != "other" else {
      throw InvalidValue("\(quoted(text)) has another meaning in logs and metrics", remedy: "write another name")
    }
    return text
  }

  static let secureURL = string("write an https URL such as \"https://id.example.com/.well-known/jwks.json\"") {
    (text, remedy) throws(InvalidValue) in
    // The log would contain the key with every failed fetch.
    guard !holdsAPIKey(text) else { throw InvalidValue("contains an API key", remedy: remedy) }
    do throws(InvalidValue) { _ = try ServiceURL(text) } catch {
      throw InvalidValue("\(quotedURL(text)) \(error)", remedy: remedy)
    }
    return text
  }
}

extension SettingType where Value == APIKeyDigest {
  /// The SHA-256 of an API key. An invalid value may be the key itself, so errors never quote it.
  static let apiKeyDigest = string(
    "write the 64 hexadecimal digits that new-api-key prints", write: { "\"\($0.hexadecimal)\"" }
  ) { (text, remedy) throws(InvalidValue) in
    guard APIKeyForm(of: text) == .other else {
      throw InvalidValue(
        "is an API key in clear instead of its SHA-256",
        remedy: "others may know this key now: make a new one with new-api-key, and \(remedy)")
    }
    guard let digest = APIKeyDigest(hexadecimal: text) else {
      let kind =
        text.hasPrefix("sha256 ")
        ? ": leave out the word sha256" : text.utf8.count == 64 ? "" : " (\(text.utf8.count) characters)"
      throw InvalidValue("is not a SHA-256 in hexadecimal\(kind)", remedy: remedy)
    }
    guard !digest.isOfEmptyKey else { throw InvalidValue("is the SHA-256 of an empty key", remedy: remedy) }
    return digest
  }
}

extension SettingType where Value == SubjectName {
  static let subjectName = text(
    "a subject alternative name",
    remedy: "write a URI such as \"spiffe://example.com/partner\", a DNS name without a star, or an e-mail address",
    make: { SubjectName($0) })
}
