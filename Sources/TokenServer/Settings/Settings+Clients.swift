import Access
import DeveloperToken

/// `access.clients`: a list of objects, each of which is read whole, so that all that is wrong is told at once.
extension Settings.Access {
  /// More than any operator has written by hand. Each costs a few hundred bytes, and labels in the metrics.
  static let maximumClients = 1000

  /// What became of the list.
  struct ReadClients {
    /// The clients; nil if any is faulty.
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
      reader.fault(
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
      reader.fault(clients.path, within: clash.place, problem: clash.problem, remedy: clash.remedy)
    }
    return ReadClients(whole: read.whole(), candidates: candidates)
  }

  private static func readClient(
    _ object: inout ObjectReader, noting candidate: inout ClientCandidate, within surroundings: ValidationContext
  ) -> Client? {
    if !object.has("id") { object.fault("id", problem: "is not set", remedy: "write a name such as \"android\"") }
    let id = object.read("id", .clientID)
    candidate.id = id
    let origins = object.readElements("origins", of: .originPattern, atMost: 1000)
    if credentials.allSatisfy({ !object.has($0) }) { candidate.knownOrigins = origins?.compactMap { $0 } ?? [] }
    if origins?.isEmpty ?? false, credentials.contains(where: object.has) {
      // Taken at its word it would lift the restriction to web origins.
      object.fault("origins", problem: "is empty", remedy: "name some, or leave it out for callers from anywhere")
    }
    // Faulty ones are a fault already.
    let hasOrigins = origins.map { !$0.isEmpty } ?? object.has("origins")
    let credential = readCredential(&object, noting: &candidate, hasOrigins: hasOrigins)
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
    _ object: inout ObjectReader, _ credential: Client.Credential?, within surroundings: ValidationContext
  ) {
    guard case .certificate = credential, let server = surroundings.server, server.tls?.clientCAFile == nil else {
      return
    }
    object.fault(
      "clientCertificate", problem: "can never be shown, because no client is asked for a certificate",
      remedy: "name the CAs that sign them in server.tls.clientCAFile")
  }
}
