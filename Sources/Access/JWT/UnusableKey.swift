/// Why a key of a set is left out.
struct UnusableKey: Error {
  /// What follows a colon, with a full stop.
  let reason: String

  init(_ reason: String) {
    self.reason = reason
  }
}
