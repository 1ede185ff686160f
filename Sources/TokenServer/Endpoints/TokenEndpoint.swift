import Access
import Bytes
import DeveloperToken
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import Telemetry

/// `GET` and `POST /token`: a developer token for a caller that may have one.
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
        .post(bodyLimit: bodyLimit, judge: { judge($0) }),
      ])
  }

  /// Identity and rate come first, then permission; and only for a caller who has it the query and the content.
  private func reply(to request: Request) -> Reply {
    let visit = AuditContext(request)
    return switch gate.admit(request, visit) {
    case .immediate(let verdict): .immediate(response(to: verdict, Wish(request)))
    case .deferred(let sources, let presented):
      reply(to: presented, visit, afterKeysOf: sources, Wish(request).copied())
    }
  }

  /// The same for a request whose content is still to come.
  private func judge(_ request: Request) -> HeadReply {
    let visit = AuditContext(request)
    let wish = Wish(request).copied()
    switch gate.admit(request, visit) {
    case .immediate(.refused(let response)): return .immediate(response)
    case .immediate(let verdict): return .read { .immediate(response(to: verdict, wish, $0)) }
    case .deferred(let sources, let presented):
      return .read { reply(to: presented, visit, afterKeysOf: sources, wish, $0) }
    }
  }

  private func reply(
    to presented: PresentedCredentials, _ visit: AuditContext, afterKeysOf sources: [KeySetSource], _ wish: Wish,
    _ content: [UInt8] = []
  ) -> Reply {
    .deferred { _ in response(to: await gate.admit(presented, visit, afterKeysOf: sources), wish, content) }
  }

  private func response(to verdict: AccessGate.Verdict, _ wish: Wish, _ content: [UInt8] = []) -> Response {
    switch verdict {
    case .admitted(let admitted): respond(to: admitted, wish, content)
    case .refused(let response): response
    }
  }

  private func respond(to admitted: AccessGate.AuthorizedCaller, _ wish: Wish, _ content: [UInt8]) -> Response {
    do throws(Denial) {
      let now = Glibc.time(nil)
      let token = try token(for: admitted.caller, wish, content, now: now)
      gate.grant(admitted, token: AuditRecord.Token(token, key: minter.key))
      var response = TokenResponse(token, now: now, form: wish.form).response
      admitted.mark(&response)
      return response
    } catch {
      return gate.refuse(error, admitted)
    }
  }

  private func token(
    for caller: Principal, _ wish: Wish, _ content: [UInt8], now: Int
  ) throws(Denial) -> MintedToken {
    try caller.mayHaveTokens()
    let parameters: TokenParameters
    let origins: [Origin]
    do throws(ErrorResponse) {
      parameters = try TokenParameters(query: wish.query, body: content)
      origins = try Self.origins(parameters)
    } catch { throw Denial(error, "invalid_request") }
    let grant = try caller.token(ttl: parameters.ttl, origins: origins)
    do throws(TokenError) {
      return try minter.token(ttl: grant.ttl, origins: grant.origins, now: now)
    } catch {
      let response = ErrorResponse(error)
      if response.code == .internalError { gate.service.warn(ofFailedToken: error) }
      throw Denial(response, response.code == .invalidParameter ? "invalid_request" : "not_minted")
    }
  }

  /// What a head asks for, not yet parsed.
  private struct Wish {
    private(set) var query: ArraySlice<UInt8>
    let form: TokenResponse.Form

    init(_ request: Request) {
      query = request.query ?? []
      form = TokenResponse.Form(accept: request)
    }

    /// The same in memory of its own, for a wait: a slice keeps the whole head.
    func copied() -> Wish {
      var copy = self
      copy.query = Array(query)[...]
      return copy
    }
  }

  private static func origins(_ parameters: TokenParameters) throws(ErrorResponse) -> [Origin] {
    // Before any of them is parsed: a body may hold tens of thousands.
    guard parameters.origins.count <= TokenMinter.maximumOrigins else {
      throw ErrorResponse(.tooManyOrigins(count: parameters.origins.count, maximum: TokenMinter.maximumOrigins))
    }
    var origins: [Origin] = []
    for text in parameters.origins {
      do { origins.append(try Origin(text.text)) } catch { throw ErrorResponse(.invalidParameter, "\(error)") }
    }
    return origins
  }
}

extension ErrorResponse {
  /// A token that cannot be minted: the caller's error or the server's.
  fileprivate init(_ error: TokenError) {
    switch error {
    case .ttlTooShort, .ttlTooLong, .tooManyOrigins: self.init(.invalidParameter, "\(error)")
    case .implausibleClock, .keyIDEqualsTeamID, .signing: self.init(.internalError, "No token could be made. \(error)")
    }
  }
}

extension AuditRecord.Token {
  fileprivate init?(_ token: MintedToken, key: SigningKey) {
    guard let digest = TokenDigest(hexadecimal: token.sha256) else { return nil }
    self.init(
      keyID: key.keyID.description, origins: token.origins.map(\.description), expiry: token.expiresAt, digest: digest)
  }
}
