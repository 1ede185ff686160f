import Access
import Bytes
import DeveloperToken
import Glibc
import HTTP1
import HTTPServer
import HTTPTypes
import Telemetry

/// `GET` and `POST /token`: a developer token for whoever may have one.
struct TokenEndpoint: Sendable {
  let minter: TokenMinter
  let gate: AccessGate
  /// Longest body of a `POST`, in bytes.
  let bodyLimit: Int

  var route: Route {
    Route(
      "/token",
      [
        .get(reply: { reply(to: $0) }),
        .post(bodyLimit: bodyLimit, reply: { reply(to: $0) }),
      ])
  }

  private func reply(to request: Request) -> Reply {
    let visit = Visit(request)
    let form = TokenAnswer.Form(accept: request)
    let parameters = Result { () throws(Refusal) in
      try TokenParameters(query: request.query ?? [], body: request.body)
    }
    switch gate.admit(request, visit) {
    case .now(let verdict): return .now(respond(to: verdict, parameters, form))
    case .later(let sources, let presented):
      return .later { _ in
        respond(to: await gate.admit(presented, visit, afterKeysOf: sources), parameters, form)
      }
    }
  }

  private func respond(
    to verdict: AccessGate.Verdict, _ parameters: Result<TokenParameters, Refusal>, _ form: TokenAnswer.Form
  ) -> Response {
    switch verdict {
    case .admitted(let admitted): respond(to: admitted, parameters, form)
    case .refused(let response): response
    }
  }

  private func respond(
    to admitted: AccessGate.Admitted, _ parameters: Result<TokenParameters, Refusal>, _ form: TokenAnswer.Form
  ) -> Response {
    do throws(Unfulfilled) {
      let now = Glibc.time(nil)
      let token = try token(for: admitted.caller, parameters, now: now)
      gate.grant(admitted, token: AuditRecord.Token(token, key: minter.key))
      var response = TokenAnswer(token, now: now, form: form).response
      admitted.mark(&response)
      return response
    } catch {
      return gate.refuse(error, admitted)
    }
  }

  private func token(
    for caller: Principal, _ parameters: Result<TokenParameters, Refusal>, now: Int
  ) throws(Unfulfilled) -> DeveloperToken {
    let ttl: Int?
    let origins: [Origin]
    do throws(Refusal) {
      (ttl, origins) = (try parameters.get().ttl, try Self.origins(try parameters.get()))
    } catch { throw Unfulfilled(error, "invalid_request") }
    let grant: Principal.TokenGrant
    do throws(Denial) { grant = try caller.token(ttl: ttl, origins: origins) } catch { throw Unfulfilled(error) }
    do throws(TokenError) {
      return try minter.token(ttl: grant.ttl, origins: grant.origins, now: now)
    } catch {
      let refusal = Refusal(error)
      if refusal.code == .internalError { gate.service.warn(ofFailedToken: error) }
      throw Unfulfilled(refusal, refusal.code == .invalidParameter ? "invalid_request" : "not_minted")
    }
  }

  private static func origins(_ parameters: TokenParameters) throws(Refusal) -> [Origin] {
    // Before any of them is parsed: a body may hold tens of thousands.
    guard parameters.origins.count <= TokenMinter.maximumOrigins else {
      throw Refusal(.tooManyOrigins(count: parameters.origins.count, maximum: TokenMinter.maximumOrigins))
    }
    var origins: [Origin] = []
    for text in parameters.origins {
      do { origins.append(try Origin(text.text)) } catch { throw Refusal(.invalidParameter, "\(error)") }
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

extension AuditRecord.Token {
  fileprivate init?(_ token: DeveloperToken, key: SigningKey) {
    guard let digest = TokenDigest(hexadecimal: token.sha256) else { return nil }
    self.init(
      keyID: key.keyID.description, origins: token.origins.map(\.description), expiry: token.expiresAt, digest: digest)
  }
}
