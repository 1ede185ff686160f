/// What became of a request's developer token.
enum TokenVerdict: Sendable, Equatable {
  /// It is good, for this team.
  case accepted(team: String, keyID: String, secondsLeft: Int)
  /// It is not, for this reason; Apple's answer is 401 with an empty body whatever the reason is.
  case refused(String)

  /// For the log of requests, in place of the token.
  var summary: String {
    switch self {
    case .accepted(let team, let keyID, let left): "accepted: team \(team), key \(keyID), \(left) s left"
    case .refused(let reason): "refused: \(reason)"
    }
  }
}
