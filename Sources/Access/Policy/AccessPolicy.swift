import Bytes
public import DeveloperToken

/// Says which caller may have what: one immutable, compiled value that serves every request.
///
/// It works in two steps. `identify` returns the caller, or why the caller is unknown. The ``Principal`` then says what
/// that caller may have. The policy allows only what the configuration states.
public struct AccessPolicy: Sendable {
  /// The clients that the server can identify, in the order of the configuration.
  public let clients: [Client]
  /// What a caller may have that sends no credential and matches no client's origin; nil for nothing.
  public let anonymous: Client?

  let keys: APIKeyring
  let issuers: [ByteString: [Int]]
  let certificates: [SubjectName: Int]
  private let exactOrigins: [Origin: Int]
  private let originPatterns: [String: Int]
  private let crossOrigins: CrossOriginSet
  /// Every origin that is written down, by its serialization: to know one is ten times as quick as to parse it.
  private let written: [String: Origin]

  /// Compiles a policy. If two clients share a key, a certificate name or an origin, the first one gets it. The code
  /// that reads the configuration must refuse such duplicates.
  ///
  /// - Parameter anonymous: What those without credentials may have, a client known as ``Client/anonymousID``.
  public init(clients: [Client], anonymous: Client?) {
    var keys = APIKeyring()
    var issuers: [ByteString: [Int]] = [:]
    var certificates: [SubjectName: Int] = [:]
    var exact: [Origin: Int] = [:]
    var patterns: [String: Int] = [:]
    for (index, client) in clients.enumerated() {
      switch client.credential {
      case .apiKeys(let digests): for digest in digests { _ = keys.add(digest, for: index) }
      case .jwt(let rules, _): issuers[ByteString(rules.issuer), default: []].append(index)
      case .certificate(let names): for name in names where certificates[name] == nil { certificates[name] = index }
      case .origin:
        guard case .only(let origins) = client.origins else { continue }
        for origin in origins {
          switch origin {
          case .exact(let origin): if exact[origin] == nil { exact[origin] = index }
          case .anyLabel(let pattern): if patterns[pattern] == nil { patterns[pattern] = index }
          }
        }
      case .anonymous: continue
      }
    }
    self.clients = clients
    self.anonymous = anonymous
    (self.keys, self.issuers, self.certificates) = (keys, issuers, certificates)
    (exactOrigins, originPatterns) = (exact, patterns)
    catalogIsShared = (clients + [anonymous].compactMap { $0 }).count { $0.catalog || $0.me } > 1
    let everybody = clients + [anonymous].compactMap { $0 }
    crossOrigins = CrossOriginSet(everybody)
    written = everybody.reduce(into: [:]) { written, client in
      guard case .only(let origins) = client.origins else { return }
      for case .exact(let origin) in origins { written[origin.description] = origin }
    }
  }

  /// Whether requests can identify their caller by a credential, and not only by their origin.
  public var knowsCredentials: Bool { keys.count > 0 || !issuers.isEmpty || !certificates.isEmpty }

  /// Whether any client has a TLS client certificate as its credential. Otherwise the server does not treat a
  /// certificate as a credential.
  public var knowsCertificates: Bool { !certificates.isEmpty }

  /// Whether any client is known by the origin alone, as browsers send it.
  var knowsOrigins: Bool { !exactOrigins.isEmpty || !originPatterns.isEmpty }

  /// The client that is known by this origin: one that names it before one that a star covers it of.
  func client(of origin: Origin) -> Client? {
    guard knowsOrigins else { return nil }
    let index =
      exactOrigins[origin]
      ?? (originPatterns.isEmpty ? nil : OriginPattern.pattern(of: origin).flatMap { originPatterns[$0] })
    return index.map { clients[$0] }
  }

  /// The origin that is serialised so, if it is written down.
  public func writtenOrigin(_ serialization: String) -> Origin? { written.isEmpty ? nil : written[serialization] }

  /// Whether pages of this origin may read answers: whether any client may use it (the Fetch standard, §3.3).
  public func mayRead(_ origin: Origin) -> Bool { crossOrigins.contains(origin) }

  /// Whether the whole world may have the catalog, without a credential and from any page or program.
  public var catalogIsPublic: Bool {
    guard let anonymous else { return false }
    return anonymous.catalog && !anonymous.origins.isRestricted && anonymous.storefronts == nil
  }

  /// Whether there are several clients who share what Apple allows the team, `/v1/me` included.
  public let catalogIsShared: Bool

  /// Where keys of identity providers come from.
  public var keySources: Set<KeySetSource> {
    Set(
      clients.compactMap { client in
        if case .jwt(_, let source) = client.credential { source } else { nil }
      })
  }
}

/// All origins that some client may use.
private struct CrossOriginSet: Sendable {
  private var exact: Set<Origin> = []
  private var patterns: Set<String> = []
  private var others: [AllowedOrigins] = []

  init(_ clients: [Client]) {
    for client in clients where client.mayHaveAnything {
      guard case .only(let origins) = client.origins else {
        others.append(client.origins)
        continue
      }
      for origin in origins {
        switch origin {
        case .exact(let origin): exact.insert(origin)
        case .anyLabel(let pattern): patterns.insert(pattern)
        }
      }
    }
  }

  func contains(_ origin: Origin) -> Bool {
    exact.contains(origin) || others.contains { $0.allows(origin) }
      || (!patterns.isEmpty && OriginPattern.pattern(of: origin).map(patterns.contains) ?? false)
  }
}
