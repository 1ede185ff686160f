import DeveloperToken
import HTTPServer
import HTTPTypes

/// What callers without credentials may have, compiled from the settings: answers for a caller what its token bears.
struct AnonymousPolicy: Sendable {
  let settings: Settings.Access.Anonymous

  /// Whether answers may be read by pages of this origin.
  func admits(_ origin: Origin) -> Bool {
    (settings.token || settings.catalog) && settings.origins.allows(origin)
  }

  /// The origins that a token for this caller bears.
  ///
  /// A browser's token is bound to the page that asks. `Origin` restricts and does not authenticate: another program
  /// may send any.
  ///
  /// - Parameters:
  ///   - header: The caller's `Origin`, nil if it sent none.
  ///   - named: Those that it asked for.
  /// - Throws: The refusal, if it may not.
  func origins(header: Origin?, named: [Origin]) throws(Refusal) -> [Origin] {
    guard settings.token else {
      throw Refusal(.notPermitted, "This server gives no tokens to callers without credentials.")
    }
    for origin in named + (header.map { [$0] } ?? []) where !settings.origins.allows(origin) {
      throw Self.notAllowed("\(origin)")
    }
    if let header, settings.origins.isRestricted, let other = named.first(where: { $0 != header }) {
      throw Refusal(.originNotAllowed, "A page of \(header) gets no token bound to \(other), only to its own origin.")
    }
    guard named.isEmpty else { return named }
    if let header { return [header] }
    guard !settings.origins.isRestricted else { throw Self.noOrigin }
    return []
  }

  /// Lets a caller have answers of the catalog, or of `/v1/me`.
  ///
  /// - Throws: The refusal, if it may not. Never 403: apps take that for the sign to fetch a new music user token.
  func admitCatalog(_ header: RequestOrigin, me: Bool) throws(Refusal) {
    do throws(Refusal) {
      guard settings.catalog else {
        throw Refusal(
          .notPermitted,
          "This server gives no answers of the catalog to callers without credentials: its setting "
            + "access.anonymous.catalog is off.")
      }
      guard settings.me || !me else {
        throw Refusal(
          .notPermitted,
          "This server forwards no /v1/me for callers without credentials: its setting "
            + "access.anonymous.me is off.")
      }
      switch header {
      case .absent: if settings.origins.isRestricted { throw Self.noOrigin }
      case .present(let origin): if !settings.origins.allows(origin) { throw Self.notAllowed("\(origin)") }
      case .unusable(let text): throw Self.notAllowed(text)
      }
    } catch {
      var refusal = error
      if refusal.status == .forbidden { refusal.status = .notFound }
      throw refusal
    }
  }

  static func notAllowed(_ origin: String) -> Refusal {
    Refusal(.originNotAllowed, "\(origin) is not one of the origins that this server is for.")
  }

  /// Browsers leave `Origin` out of a same-origin GET, which is the usual cause.
  private static let noOrigin = Refusal(
    .missingCredentials,
    "This server is for the web origins that it lists, and the request names none. Browsers send no Origin with a "
      + "same-origin GET: a page on this server's own origin gets its token by POST /token.",
    fields: [.wwwAuthenticate: "Bearer realm=\"musickit-token-server\""])
}

extension AllowedOrigins {
  /// Whether there is a list of origins, so that a token without one would be worth more than any of those.
  var isRestricted: Bool {
    switch self {
    case .any, .loopback: false
    case .only(let origins): !origins.isEmpty
    }
  }
}
