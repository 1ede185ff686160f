import DeveloperToken
import Glibc
import HTTP1
import HTTPServer
import HTTPTypes

/// `GET` and `POST /token`: a developer token for whoever may have one.
struct TokenEndpoint: Sendable {
  let minter: TokenMinter
  let policy: AnonymousPolicy
  /// Longest body of a `POST`, in bytes.
  let bodyLimit: Int

  var route: Route {
    Route(
      "/token",
      [
        .get { respond(to: $0) },
        .post(bodyLimit: bodyLimit) { respond(to: $0) },
      ])
  }

  private func respond(to request: Request) -> Response {
    do throws(Refusal) {
      let now = Glibc.time(nil)
      let token = try token(for: request, now: now)
      return TokenAnswer(token, now: now, form: TokenAnswer.Form(accept: request)).response
    } catch {
      return error.response(id: request.id)
    }
  }

  private func token(for request: Request, now: Int) throws(Refusal) -> DeveloperToken {
    let parameters = try TokenParameters(query: request.query ?? [], body: request.body)
    var ttl = parameters.ttl
    if let most = policy.settings.ttl.map({ Int($0.components.seconds) }) {
      guard (ttl ?? 0) <= most else {
        throw Refusal(.invalidParameter, "ttl is \(ttl ?? 0) s; callers without credentials get \(most) s at most.")
      }
      ttl = ttl ?? min(most, minter.policy.ttl)
    }
    let origins = try policy.origins(header: try Self.origin(of: request), named: try Self.origins(parameters))
    do {
      return try minter.token(ttl: ttl, origins: origins, now: now)
    } catch {
      throw Refusal(error)
    }
  }

  private static func origin(of request: Request) throws(Refusal) -> Origin? {
    switch RequestOrigin(request) {
    case .absent: nil
    case .present(let origin): origin
    case .unusable(let text): throw AnonymousPolicy.notAllowed(text)
    }
  }

  private static func origins(_ parameters: TokenParameters) throws(Refusal) -> [Origin] {
    // Before any of them is parsed: a body may hold tens of thousands.
    guard parameters.origins.count <= TokenMinter.maximumOrigins else {
      throw Refusal(.tooManyOrigins(count: parameters.origins.count, maximum: TokenMinter.maximumOrigins))
    }
    var origins: [Origin] = []
    for text in parameters.origins {
      do { origins.append(try Origin(text)) } catch { throw Refusal(.invalidParameter, "\(error)") }
    }
    return origins
  }
}

extension Refusal {
  /// A token that cannot be minted: the caller's fault where it asked for what there is not, else ours.
  fileprivate init(_ error: TokenError) {
    switch error {
    case .ttlTooShort, .ttlTooLong, .tooManyOrigins: self.init(.invalidParameter, "\(error)")
    case .implausibleClock, .keyIDEqualsTeamID, .signing: self.init(.internalError, "No token could be made. \(error)")
    }
  }
}
