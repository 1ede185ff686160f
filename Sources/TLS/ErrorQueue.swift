import COpenSSL

/// The error queue of this thread, which all sessions on it share.
enum ErrorQueue {
  /// Empties it, before a call whose failure is to be told from what other calls left behind: `SSL_get_error` takes any
  /// entry for the failure of the session at hand.
  static func clear() {
    // To look costs a fraction of emptying the sixteen entries, which are nearly always empty.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }
}
