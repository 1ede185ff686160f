import COpenSSL

/// The error queue of this thread, which all sessions on it share.
enum ErrorQueue {
  /// Empties it, before a call whose failure is to be told from what other calls left behind: `SSL_get_error` takes any
  /// entry for the failure of the session at hand.
  static func clear() {
    // To look costs a fraction of emptying the sixteen entries, which are nearly always empty.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }

  /// Empties it, and says whether an allocation failed.
  static func takeMemoryFailure() -> Bool {
    var isFound = false
    var code = ERR_get_error()
    while code != 0 {
      if ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE { isFound = true }
      code = ERR_get_error()
    }
    return isFound
  }
}
