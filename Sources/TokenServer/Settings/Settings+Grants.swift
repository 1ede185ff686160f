import Access

extension Settings {
  /// What each client may have, one line each: `android (API key): tokens of 12h for any origin; 5/s, 20 at once`. The
  /// list contains only the first clients, so that it stays readable, and always what anonymous callers may have.
  var grants: [String] {
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
