extension RequestHead {
  /// The four forms of a request target (RFC 9112 §3.2).
  public enum TargetForm: Sendable, Equatable {
    /// `/path?query`.
    case origin
    /// `http://host/path?query`, or `https`.
    case absolute
    /// `host:port`, with CONNECT only.
    case authority
    /// `*`, with OPTIONS only.
    case asterisk
  }
}
