import Access

/// `access.clients`: a list of objects, each of which is read whole, so that all that is wrong is told at once.
extension Settings.Access {
  /// More than any operator has written by hand. Each costs a few hundred bytes, and labels in the metrics.
  static let maximumClients = 1000

  /// What became of the list.
  struct ReadClients {
    /// The clients; nil if any is invalid.
    var whole: [Client]?
    /// What could be read of each.
    var candidates: [ClientCandidate] = []

    /// How often they may ask, by their ids.
    var rates: [String: Rates] {
      candidates.reduce(into: [:]) { rates, client in
        if let id = client.id { rates[id] = client.rates }
      }
    }
  }

  /// Reads them, each by itself.
  static func readClients(_ reader: inout SettingsReader, within surroundings: ValidationContext) -> ReadClients {
    guard case .array(let elements)? = reader.read(clients) else { return ReadClients() }
    guard elements.count <= maximumClients else {
      reader.reject(
        clients.path, problem: "has \(elements.count) clients", remedy: "write \(maximumClients) at most")
      return ReadClients()
    }
    var candidates: [ClientCandidate] = []
    let read = elements.enumerated().map { index, value in
      var candidate = ClientCandidate()
      defer { candidates.append(candidate) }
      return reader.readObject(value, at: "\(clients.path)[\(index)]") {
        readClient(&$0, noting: &candidate, within: surroundings)
      }
    }
    for clash in ClientConflict.all(in: candidates) {
      reader.reject(clients.path, within: clash.place, problem: clash.problem, remedy: clash.remedy)
    }
    return ReadClients(whole: read.whole(), candidates: candidates)
  }

  private static func readClient(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate, within surroundings: ValidationContext
  ) -> Client? {
    if !object.has("id") { object.reject("id", problem: "is not set", remedy: "write a name such as \"android\"") }
    let id = object.read("id", .clientID)
    candidate.id = id
    let origins = object.readElements("origins", of: .originPattern, atMost: 1000)
    if credentials.allSatisfy({ !object.has($0) }) { candidate.knownOrigins = origins?.compactMap { $0 } ?? [] }
    if origins?.isEmpty ?? false, credentials.contains(where: object.has) {
      // Taken at its word it would lift the restriction to web origins.
      object.reject("origins", problem: "is empty", remedy: "name some, or leave it out for callers from anywhere")
    }
    // Invalid ones are errors already.
    let hasOrigins = origins.map { !$0.isEmpty } ?? object.has("origins")
    let credential = readCredential(&object, noting: &candidate, hasOrigins: hasOrigins)
    let token = object.read("token", .bool, default: true)
    let catalog = object.read("catalog", .bool, default: false)
    let me = object.read("me", .bool, default: false)
    let ttl = object.read("ttl", .duration(seconds: 60...Settings.Token.cap))
    if let ttl, let most = surroundings.token?.maxTTL, ttl > most {
      object.reject("ttl", problem: "is more than token.maxTTL", remedy: "write as much at most, or raise that")
    }
    let storefronts = object.readList("storefronts", of: .storefront, atMost: 300)
    if storefronts?.isEmpty ?? false {
      object.reject("storefronts", problem: "is empty", remedy: "name some, or leave it out for all")
    }
    let share = object.read("share", .share)
    let rates = object.object("rateLimit", remedy: "write { perSecond: 5, burst: 20 }") { Rates(&$0) }
    candidate.rates = rates
    checkWorth(&object, token: token, catalog: catalog, me: me, within: surroundings)
    checkCertificate(&object, credential, within: surroundings)
    guard let id, let credential, let token, let catalog, let me else { return nil }
    return Client(
      id: id, credential: credential, origins: .only(origins?.whole() ?? []), token: token, catalog: catalog, me: me,
      ttl: ttl.map { Int($0.components.seconds) }, storefronts: storefronts.map(Set.init), rate: rates?.each,
      totalRate: rates?.total, countsAddresses: rates?.unit == .address, share: share)
  }

  /// Notes what a client may not have although it looks so, and one that may have nothing.
  private static func checkWorth(
    _ object: inout ObjectReader, token: Bool?, catalog: Bool?, me: Bool?, within surroundings: ValidationContext
  ) {
    guard let token, let catalog, let me else { return }
    if !token, !catalog, !me {
      object.reject(
        "", problem: "is a client that may do nothing", remedy: "turn token, catalog or me on, or remove it")
    }
    guard let settings = surroundings.catalog else {
      if catalog || me, !token {
        object.reject(
          "", problem: "is a client that may do nothing, because catalog.enabled is false",
          remedy: "turn that on, or token")
      }
      return
    }
    if me, !settings.me {
      object.reject("me", problem: "has no effect while catalog.me is false", remedy: "turn that on, or leave it out")
    }
  }

  private static func checkCertificate(
    _ object: inout ObjectReader, _ credential: Client.Credential?, within surroundings: ValidationContext
  ) {
    guard case .certificate = credential, let server = surroundings.server, server.tls?.clientCAFile == nil else {
      return
    }
    object.reject(
      "clientCertificate", problem: "can never be shown, because no client is asked for a certificate",
      remedy: "name the CAs that sign them in server.tls.clientCAFile")
  }
}

/// How a client of `access.clients` is known.
extension Settings.Access {
  /// What a client may be known by; by its origins, if it has none of these.
  static let credentials = ["apiKey", "jwt", "clientCertificate"]

  /// Reads what a client is known by; nil if that is invalid.
  static func readCredential(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate, hasOrigins: Bool
  ) -> Client.Credential? {
    let present = credentials.filter(object.has)
    let keys = object.objects("apiKey", remedy: "write { sha256: \"…\" }", atMost: 100) { key in
      if !key.has("sha256") {
        key.reject("sha256", problem: "is not set", remedy: "write what new-api-key prints as SHA-256")
      }
      let digests = key.readElements("sha256", of: .apiKeyDigest, atMost: 100)
      candidate.digests += digests?.compactMap { $0 } ?? []
      return digests?.whole()
    }
    let jwt = object.object("jwt", remedy: "write { issuer: …, audience: …, jwksURL: … }") {
      readJWT(&$0, noting: &candidate)
    }
    let names = object.object("clientCertificate", remedy: "write { san: \"spiffe://example.com/partner\" }") { names in
      if !names.has("san") {
        names.reject("san", problem: "is not set", remedy: "write a subject alternative name of its certificate")
      }
      let read = names.readElements("san", of: .subjectName, atMost: 100)
      candidate.names = read?.compactMap { $0 } ?? []
      return read?.whole()
    }
    guard present.count < 2 else {
      object.reject(
        present[1], problem: "is a second kind of credential beside \(present[0])",
        remedy: "write a client for each, with an id of its own")
      return nil
    }
    if let keys {
      let digests = keys.flatMap { $0 }
      if digests.isEmpty { object.reject("apiKey", problem: "has no key", remedy: "write { sha256: \"…\" }") }
      return .apiKeys(digests)
    }
    if let jwt { return .jwt(jwt.rules, jwt.source) }
    if let names {
      if names.isEmpty { object.reject("clientCertificate.san", problem: "is empty", remedy: "name one") }
      return .certificate(names)
    }
    guard present.isEmpty else { return nil }
    if !hasOrigins {
      object.reject(
        "", problem: "has neither a credential nor origins, so that no request can come from this client",
        remedy: "write apiKey, jwt or clientCertificate, or origins for web pages")
      return nil
    }
    return .origin
  }

  private static func readJWT(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate
  ) -> (rules: JWTRules, source: KeySetSource)? {
    let text = "a text of at most 1024 characters"
    for name in ["issuer", "audience"] where !object.has(name) {
      object.reject(name, problem: "is not set", remedy: "write the token's \(name == "issuer" ? "iss" : "aud")")
    }
    let issuer = object.read("issuer", .label(atMost: 1024, "write the token's iss, \(text)"))
    let audiences = object.readList("audience", of: .label(atMost: 1024, "write the token's aud, \(text)"), atMost: 100)
    if audiences?.isEmpty ?? false { object.reject("audience", problem: "is empty", remedy: "name one") }
    let algorithms = object.readList("algorithms", of: SettingType<JWTAlgorithm>.word, atMost: 10)
    if algorithms?.isEmpty ?? false { object.reject("algorithms", problem: "is empty", remedy: "leave it out for all") }
    let claims = object.object("requiredClaims", remedy: "write { scope: \"music\" }") { claims in
      claims.takeNames().compactMap { name in
        let values = claims.readList(name, of: .label(atMost: 1024, "write \(text)"), atMost: 100)
        if values?.isEmpty ?? false {
          claims.reject(name, problem: "is empty", remedy: "write \(text), or leave it out")
        }
        return values.map { JWTRules.RequiredClaim(name: name, values: $0) }
      }
    }
    let source = readKeySource(&object, noting: &candidate)
    guard let issuer, let audiences, claims != nil || !object.has("requiredClaims") else { return nil }
    let rules = JWTRules(
      issuer: issuer, audiences: audiences, requiredClaims: claims ?? [],
      algorithms: algorithms.map(Set.init) ?? Set(JWTAlgorithm.allCases))
    candidate.rules = rules
    return source.map { (rules, $0) }
  }

  private static func readKeySource(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate
  ) -> KeySetSource? {
    let file = object.read("jwksFile", .path)
    let url = object.read("jwksURL", .secureURL)
    let caFile = object.read("caFile", .path)
    (candidate.keySetFile, candidate.caFile) = (file, caFile)
    candidate.fetchesKeySet = object.has("jwksURL")
    switch (object.has("jwksFile"), object.has("jwksURL")) {
    case (true, true):
      object.reject("jwksURL", problem: "is set, and so is jwksFile", remedy: "keep one of the two")
      return nil
    case (false, false):
      object.reject(
        "jwksURL", problem: "is not set",
        remedy: "write where the provider publishes its keys, an https URL, or jwksFile for a copy of them")
      return nil
    case (true, false):
      if object.has("caFile") {
        object.reject("caFile", problem: "has no effect beside jwksFile", remedy: "leave it out")
      }
      return file.map(KeySetSource.file)
    case (false, true):
      return url.map { .url($0, caFile: caFile) }
    }
  }
}

extension Settings {
  /// What each client may have, one line each: `android (API key): tokens of 12h for any origin; 5/s, 20 at once`. The
  /// list contains only the first clients, so that it stays readable, and always what anonymous callers may have.
  package var grants: [String] {
    let anonymous = access.anonymous.map { [grant(to: $0)] } ?? []
    let most = 20 - anonymous.count
    let rest = access.clients.count - most
    return access.clients.prefix(most).map(grant(to:))
      + (rest > 0 ? ["and \(rest) more \(rest == 1 ? "client" : "clients")"] : []) + anonymous
  }

  private func grant(to client: Client) -> String {
    let things = [tokens(for: client), catalog(for: client), catalog?.me == true && client.me ? "/v1/me" : nil]
    let rates = access.rates[client.id]?.text ?? "no rate limit"
    return "\(client.id)\(client.knownBy): \(things.compactMap { $0 }.joined(separator: ", ")); \(rates)"
  }

  private func tokens(for client: Client) -> String? {
    guard client.token else { return nil }
    let ttl = client.ttl.map { durationText($0) } ?? durationText(Int(token.ttl.components.seconds))
    return "tokens of \(ttl) for \(client.origins.names)"
  }

  private func catalog(for client: Client) -> String? {
    guard catalog != nil, client.catalog else { return nil }
    guard let storefronts = client.storefronts else { return "the catalog" }
    return "the catalog of \(list(storefronts.sorted(), atMost: 8, of: "storefronts"))"
  }
}

/// All of a few, else how many there are.
private func list(_ names: [String], atMost most: Int, of things: String) -> String {
  names.count <= most ? names.joined(separator: ", ") : "\(names.count) \(things)"
}

extension Client {
  /// ` (API key)`, ` (JWT, and origin)`; nothing for everybody.
  fileprivate var knownBy: String {
    let kind: String
    switch credential {
    case .apiKeys(let digests): kind = digests.count == 1 ? "API key" : "\(digests.count) API keys"
    case .jwt: kind = "JWT"
    case .certificate: kind = "client certificate"
    case .origin: return " (origin)"
    case .anonymous: return ""
    }
    return origins.isRestricted ? " (\(kind), and origin)" : " (\(kind))"
  }
}

extension Rates {
  /// `5/s, 20 at once, 200/s in all`; the second two if they are set.
  fileprivate var text: String {
    let each = each.map { "\(Self.text($0.perSecond)), \($0.burst) at once" }
    return [each, total.map { "\(Self.text($0.perSecond)) in all" }].compactMap { $0 }.joined(separator: ", ")
  }

  private static func text(_ perSecond: Double) -> String {
    let whole = Int(exactly: perSecond)
    return "\(whole.map { "\($0)" } ?? "\(perSecond)")/s"
  }
}

extension AllowedOrigins {
  /// The origins that its tokens may be for.
  fileprivate var names: String {
    switch self {
    case .only(let patterns) where !patterns.isEmpty:
      list(patterns.map { shown("\($0)") }, atMost: 3, of: "origins")
    case .loopback: "origins of this machine"
    case .any, .only: "any origin"
    }
  }
}
