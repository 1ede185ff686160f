import Access
import DeveloperToken

/// `access.clients`: a list of objects, each of which is read whole, so that all that is wrong is told at once.
extension Settings.Access {
  /// More than any operator has written by hand. Each costs a few hundred bytes, and labels in the metrics.
  static let maximumClients = 1000

  /// The clients; nil if any is faulty.
  static func readClients(_ reader: inout SettingsReader, within surroundings: Surroundings) -> [Client]? {
    guard case .array(let elements)? = reader.read(clients) else { return nil }
    guard elements.count <= maximumClients else {
      reader.fault(
        clients.path, problem: "has \(elements.count) clients", remedy: "write \(maximumClients) at most")
      return nil
    }
    let read = elements.enumerated().map { index, value in
      reader.readObject(value, at: "\(clients.path)[\(index)]") { readClient(&$0, within: surroundings) }
    }
    // Of the readable ones, so that a fault in one does not hide that two others are the same.
    for clash in ClientClash.all(in: read) {
      reader.fault(clients.path, within: clash.place, problem: clash.problem, remedy: clash.remedy)
    }
    return read.contains { $0 == nil } ? nil : read.compactMap { $0 }
  }

  private static func readClient(_ object: inout ObjectReader, within surroundings: Surroundings) -> Client? {
    if !object.has("id") { object.fault("id", problem: "is not set", remedy: "write a name such as \"android\"") }
    let id = object.read("id", .clientID)
    let origins = object.readList("origins", of: .originPattern, atMost: 1000)
    // Faulty ones are a fault already.
    let hasOrigins = origins.map { !$0.isEmpty } ?? object.has("origins")
    let credential = readCredential(&object, hasOrigins: hasOrigins)
    let token = object.read("token", .bool, default: true)
    let catalog = object.read("catalog", .bool, default: false)
    let me = object.read("me", .bool, default: false)
    let ttl = object.read("ttl", .duration(seconds: 60...Settings.Token.cap))
    if let ttl, let most = surroundings.token?.maxTTL, ttl > most {
      object.fault("ttl", problem: "is more than token.maxTTL", remedy: "write as much at most, or raise that")
    }
    let storefronts = object.readList("storefronts", of: .storefront, atMost: 300)
    if storefronts?.isEmpty ?? false {
      object.fault("storefronts", problem: "is empty", remedy: "name some, or leave it out for all")
    }
    let share = object.read("share", .share)
    let rates = object.object("rateLimit", remedy: "write { perSecond: 5, burst: 20 }") { Rates(&$0) }
    checkWorth(&object, token: token, catalog: catalog, me: me, within: surroundings)
    checkCertificate(&object, credential, within: surroundings)
    guard let id, let credential, let token, let catalog, let me else { return nil }
    return Client(
      id: id, credential: credential, origins: .only(origins ?? []), token: token, catalog: catalog, me: me,
      ttl: ttl.map { Int($0.components.seconds) }, storefronts: storefronts.map(Set.init), rate: rates?.each,
      totalRate: rates?.total, countsAddresses: rates?.unit == .address, share: share)
  }

  /// Notes what a client may not have although it looks so, and one that may have nothing.
  private static func checkWorth(
    _ object: inout ObjectReader, token: Bool?, catalog: Bool?, me: Bool?, within surroundings: Surroundings
  ) {
    guard let token, let catalog, let me else { return }
    if !token, !catalog, !me {
      object.fault("", problem: "is a client that may do nothing", remedy: "turn token, catalog or me on, or remove it")
    }
    guard let settings = surroundings.catalog else {
      if catalog || me, !token {
        object.fault(
          "", problem: "is a client that may do nothing, because catalog.enabled is false",
          remedy: "turn that on, or token")
      }
      return
    }
    if me, !settings.me {
      object.fault("me", problem: "has no effect while catalog.me is false", remedy: "turn that on, or leave it out")
    }
  }

  private static func checkCertificate(
    _ object: inout ObjectReader, _ credential: Client.Credential?, within surroundings: Surroundings
  ) {
    guard case .certificate = credential, let server = surroundings.server, server.tls?.clientCAFile == nil else {
      return
    }
    object.fault(
      "clientCertificate", problem: "can never be shown, because no client is asked for a certificate",
      remedy: "name the CAs that sign them in server.tls.clientCAFile")
  }

  // MARK: Credentials

  private static let credentials = ["apiKey", "jwt", "clientCertificate"]

  private static func readCredential(_ object: inout ObjectReader, hasOrigins: Bool) -> Client.Credential? {
    let present = credentials.filter(object.has)
    let keys = object.objects("apiKey", remedy: "write { sha256: \"…\" }", atMost: 100) { key in
      if !key.has("sha256") {
        key.fault("sha256", problem: "is not set", remedy: "write what new-api-key prints as SHA-256")
      }
      return key.readList("sha256", of: .apiKeyDigest, atMost: 100)
    }
    let jwt = object.object("jwt", remedy: "write { issuer: …, audience: …, jwksURL: … }") { readJWT(&$0) }
    let names = object.object("clientCertificate", remedy: "write { san: \"spiffe://example.com/partner\" }") { names in
      if !names.has("san") {
        names.fault("san", problem: "is not set", remedy: "write a subject alternative name of its certificate")
      }
      return names.readList("san", of: .subjectName, atMost: 100)
    }
    guard present.count < 2 else {
      object.fault(
        present[1], problem: "is a second kind of credential beside \(present[0])",
        remedy: "write a client for each, with an id of its own")
      return nil
    }
    if let keys {
      let digests = keys.flatMap { $0 }
      if digests.isEmpty { object.fault("apiKey", problem: "has no key", remedy: "write { sha256: \"…\" }") }
      return .apiKeys(digests)
    }
    if let jwt { return .jwt(jwt.rules, jwt.source) }
    if let names {
      if names.isEmpty { object.fault("clientCertificate.san", problem: "is empty", remedy: "name one") }
      return .certificate(names)
    }
    guard present.isEmpty else { return nil }
    if !hasOrigins {
      object.fault(
        "", problem: "is a client that nothing is known by",
        remedy: "write apiKey, jwt, clientCertificate, or origins for web pages")
      return nil
    }
    return .origin
  }

  private static func readJWT(_ object: inout ObjectReader) -> (rules: JWTRules, source: KeySetSource)? {
    let text = "a text of at most 1024 characters"
    for name in ["issuer", "audience"] where !object.has(name) {
      object.fault(name, problem: "is not set", remedy: "write the token's \(name == "issuer" ? "iss" : "aud")")
    }
    let issuer = object.read("issuer", .label(atMost: 1024, "write the token's iss, \(text)"))
    let audiences = object.readList("audience", of: .label(atMost: 1024, "write the token's aud, \(text)"), atMost: 100)
    if audiences?.isEmpty ?? false { object.fault("audience", problem: "is empty", remedy: "name one") }
    let algorithms = object.readList("algorithms", of: SettingType<JWTAlgorithm>.word, atMost: 10)
    if algorithms?.isEmpty ?? false { object.fault("algorithms", problem: "is empty", remedy: "leave it out for all") }
    let claims = object.object("requiredClaims", remedy: "write { scope: \"music\" }") { claims in
      claims.takeNames().compactMap { name in
        claims.readList(name, of: .label(atMost: 1024, "write \(text)"), atMost: 100).map {
          JWTRules.RequiredClaim(name: name, values: $0)
        }
      }
    }
    let source = readKeySource(&object)
    guard let issuer, let audiences, let source else { return nil }
    return (
      JWTRules(
        issuer: issuer, audiences: audiences, requiredClaims: claims ?? [],
        algorithms: algorithms.map(Set.init) ?? Set(JWTAlgorithm.allCases)), source
    )
  }

  private static func readKeySource(_ object: inout ObjectReader) -> KeySetSource? {
    let file = object.read("jwksFile", .path)
    let url = object.read("jwksURL", .secureURL)
    let caFile = object.read("caFile", .path)
    switch (object.has("jwksFile"), object.has("jwksURL")) {
    case (true, true):
      object.fault("jwksURL", problem: "is set, and so is jwksFile", remedy: "keep one of the two")
      return nil
    case (false, false):
      object.fault(
        "jwksURL", problem: "is not set",
        remedy: "write where the provider publishes its keys, an https URL, or jwksFile for a copy of them")
      return nil
    case (true, false):
      if object.has("caFile") {
        object.fault("caFile", problem: "has no effect beside jwksFile", remedy: "leave it out")
      }
      return file.map(KeySetSource.file)
    case (false, true):
      return url.map { .url($0, caFile: caFile) }
    }
  }
}

/// `rateLimit`: how often callers may ask.
struct Rates {
  /// Whom `perSecond` and `burst` count by themselves.
  enum Unit: String, Sendable, CaseIterable {
    /// Each address.
    case address
    /// Each `sub` of a JWT; an address where there is none.
    case sub
  }

  var each: Rate?
  var total: Rate?
  var unit: Unit

  /// Nil if it is faulty.
  init?(_ object: inout ObjectReader) {
    let isEach = object.has("perSecond") || object.has("burst")
    let each = isEach || !object.has("total") ? Self.rate(&object) : nil
    let total = object.object("total", remedy: "write { perSecond: 50, burst: 200 }") { Self.rate(&$0) }
    guard let unit = object.read("per", SettingType<Unit>.word, default: .sub) else { return nil }
    (self.each, self.total, self.unit) = (each, total, unit)
  }

  private static func rate(_ object: inout ObjectReader) -> Rate? {
    if !object.has("perSecond") {
      object.fault("perSecond", problem: "is not set", remedy: "write how many requests a second, such as 5")
    }
    let perSecond = object.read(
      "perSecond", .number(Rate.perSecondRange, remedy: "write requests per second, from 0.01 to 1000000"))
    let burst = object.read("burst", .integer(Rate.burstRange))
    guard let perSecond else { return nil }
    return Rate(perSecond: perSecond, burst: burst ?? max(1, Int(perSecond.rounded(.up))))
  }
}
