import Access
import DeveloperToken
import Glibc
import HTTPMessages
import HTTPServer
import Telemetry

// The token of a caller that may have one.
extension TokenEndpoint {
  /// Responds at once, unless a remote signer must sign the token.
  func reply(to admitted: AccessGate.AuthorizedCaller, _ wish: Wish, _ content: [UInt8]) -> Reply {
    do throws(Denial) {
      let grant = try Self.grant(for: admitted.caller, wish, content)
      let answer = try minted { () throws(TokenError) in
        try minter.request(ttl: grant.ttl, origins: grant.origins, for: admitted.caller.client.id) { Glibc.time(nil) }
      }
      switch answer {
      case .ready(let document): return .immediate(respond(to: admitted, document, wish.form))
      case .waiting(let token):
        let form = wish.form
        return .deferred(DeferredWork { _ in await self.respond(to: admitted, token, form) })
      }
    } catch {
      return .immediate(gate.refuse(error, admitted))
    }
  }

  private func respond(
    to admitted: AccessGate.AuthorizedCaller, _ token: AwaitedToken, _ form: TokenResponse.Form
  ) async -> Response {
    let result = await token.get()
    // The caller has gone, and reads no response: nothing is refused.
    guard !Task.isCancelled else {
      return ErrorResponse(.internalError, "The server cancelled the request.", end: .message).response(
        id: admitted.auditContext.id)
    }
    do throws(Denial) {
      return respond(to: admitted, try minted { () throws(TokenError) in try result.get() }, form)
    } catch {
      return gate.refuse(error, admitted)
    }
  }

  private func respond(
    to admitted: AccessGate.AuthorizedCaller, _ document: TokenDocument, _ form: TokenResponse.Form
  ) -> Response {
    let refusal = gate.grant(admitted, token: AuditRecord.Token(document.token, key: minter.key))
    if let refusal { return refusal }
    var response = TokenResponse(document: document, form: form).response
    admitted.mark(&response)
    return response
  }

  /// Returns what `mint` returns. Its errors that are not the caller's are logged.
  private func minted<Result>(_ mint: () throws(TokenError) -> Result) throws(Denial) -> Result {
    do throws(TokenError) { return try mint() } catch {
      let denial = Self.denial(error)
      if [.internalError, .noSigningKey].contains(denial.response.code) { gate.service.warn(ofFailedToken: error) }
      throw denial
    }
  }

  static func denial(_ error: TokenError) -> Denial {
    switch error {
    case .ttlTooShort, .ttlTooLong, .tooManyOrigins: Denial(.invalidParameter, "invalid_request", "\(error)")
    case .implausibleClock, .keyIDEqualsTeamID, .signing:
      Denial(.internalError, "not_minted", "The server cannot make a token. \(error)")
    case .signer:
      // The sentence has paths of this machine and words of a program.
      Denial(
        .noSigningKey, "not_minted",
        "The signer of this server does not sign tokens at present. Send the request again in 5 s. The log has the reason.",
        retryAfter: 5, shortage: .developerToken)
    case .signerBusy:
      Denial(
        .overloaded, "signer_busy", "Too many requests wait for a signature. Send the request again in 1 s.",
        retryAfter: 1, shortage: .developerToken)
    }
  }
}

extension AuditRecord.Token {
  fileprivate init(_ token: MintedToken, key: SigningKey) {
    self.init(
      keyID: key.keyID.description, origins: token.origins.map(\.description), expiry: token.expiresAt,
      digest: TokenDigest(token.sha256))
  }
}
