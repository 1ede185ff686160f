import Bytes
import DeveloperToken
import HTTPMessages
import HTTPTypes
import Locks

/// Checks the developer tokens of requests. Apple's response to a refused token is always 401 with an empty body.
struct TokenJudge: Sendable {
  typealias Judgement = Result<AcceptedToken, AcceptedToken.Refusal>

  private static let scheme = "bearer "

  private let keys: [TrustedKey]
  /// The verdicts on the last tokens, because a verification costs more than the rest of a request. A verdict holds for
  /// a second, in which no time in a token passes. An app uses one token at a time, a test a few.
  private let verdicts = Memo<ByteString, (now: Int, verdict: Judgement)>(limit: 64)

  init(keys: [TrustedKey]) { self.keys = keys }

  /// - Parameter now: The emulator's time in seconds since 1970.
  func verdict(_ fields: HTTPFields, now: Int) -> Judgement {
    let values = fields.plain(.authorization)
    guard let value = values.first else { return .refused("the request has no Authorization") }
    guard values.count == 1 else { return .refused("the request has several Authorization fields") }
    guard value.lowercased().hasPrefix(Self.scheme) else { return .refused("Authorization is not Bearer") }
    let verdict = verdict(ByteString(value.dropFirst(Self.scheme.count)), now: now)
    guard case .success(let token) = verdict, !token.origins.isEmpty else { return verdict }
    guard let origin = fields.single(.origin) else { return .refused("claims.origin: the request has no Origin") }
    // Like Apple, it compares bytes and expands no wildcard.
    guard token.origins.contains(where: { $0 == origin }) else {
      return .refused("claims.origin: the claim does not name the request's Origin")
    }
    return verdict
  }

  private func verdict(_ compact: ByteString, now: Int) -> Judgement {
    if let known = verdicts[compact], known.now == now { return known.verdict }
    let verdict = Judgement { () throws(AcceptedToken.Refusal) in
      try AcceptedToken(compact.bytes, of: keys, now: now)
    }
    verdicts.remember((now, verdict), for: compact)
    return verdict
  }
}

extension TokenJudge.Judgement {
  fileprivate static func refused(_ reason: String) -> Self { .failure(.init(reason)) }

  /// The text that replaces the token in the log of requests.
  func summary(_ now: Int) -> String {
    switch self {
    case .success(let token): "accepted: team \(token.key.team), key \(token.key.keyID), \(token.expiry - now) s left"
    case .failure(let refusal): "refused: \(refusal.reason)"
    }
  }
}
