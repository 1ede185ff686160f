extension Fault {
  /// The answer that takes the place of the true one; nil if this fault leaves it.
  ///
  /// - Parameter id: The identifier of an error object.
  func replacement(id: String) -> SandboxAnswer? {
    switch self {
    case .status(let status): AppleError.serverFault(status).answer(id: id)
    case .unauthorized: .unauthorized
    case .rateLimited: .rateLimited
    case .redirect(let location): SandboxAnswer(301, fields: [SandboxField("Location", location)])
    case .huge(let count): Self.filled(count)
    default: nil
    }
  }

  private static func filled(_ count: Int) -> SandboxAnswer {
    var answer = SandboxAnswer(200, fields: [SandboxField("Content-Type", "application/json;charset=utf-8")])
    answer.delivery.filling = count
    return answer
  }

  /// What this fault does to an answer, the true one or another's.
  func apply(to answer: inout SandboxAnswer) {
    switch self {
    case .delay(let duration): answer.delivery.delay = duration
    case .slow(let pace): answer.delivery.pace = pace
    case .reset: answer.delivery.ending = .reset
    case .truncate: answer.delivery.ending = .truncated
    case .goaway: answer.delivery.closesConnection = true
    case .foreignFields: answer.fields += Self.foreign
    case .status, .unauthorized, .rateLimited, .redirect, .huge: break
    }
  }

  private static let foreign = [
    SandboxField("Set-Cookie", "sandbox=1; Path=/; Secure; HttpOnly"), SandboxField("Set-Cookie", "itspod=2; Path=/"),
    SandboxField("Access-Control-Allow-Credentials", "true"),
    SandboxField("Access-Control-Expose-Headers", "Music-User-Token"), SandboxField("WWW-Authenticate", "Bearer"),
    SandboxField("Proxy-Authenticate", "Basic"), SandboxField("Strict-Transport-Security", "max-age=31536000"),
    SandboxField("Alt-Svc", "h3=\":443\""), SandboxField("Server", "sandbox"),
    SandboxField("X-Apple-Jingle-Correlation-Key", "SANDBOX"),
  ]
}

extension SandboxAnswer {
  /// Apple's answer to a developer token that it refuses: nothing at all.
  static let unauthorized = SandboxAnswer(401)

  /// Apple's answer over its rate: not in its documented shape, and without `Retry-After`.
  static let rateLimited = SandboxAnswer.json(["message": "API capacity exceeded"], status: 429)
}
