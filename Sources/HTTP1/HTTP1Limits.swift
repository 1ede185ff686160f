/// Every limit of the HTTP/1.1 codec: name, default, unit and reason.
///
/// A message that exceeds one is refused with the error named beside it.
public struct HTTP1Limits: Sendable, Equatable {
  /// Longest method, in bytes: 32. The longest registered one (`UPDATEREDIRECTREF`) has 17; a peer that sends an
  /// endless first word is not speaking HTTP. ``RequestError/methodTooLong`` (501, RFC 9112 §3).
  public var method = 32

  /// Longest request line without its CRLF, in bytes: 8 KiB, above the 8000 that RFC 9112 §3 asks for at least.
  /// ``RequestError/requestLineTooLong`` (414).
  public var requestLine = 8192

  /// Largest header section, in bytes, CRLFs included, request line and final empty line not: 32 KiB. Browsers and
  /// proxies stay below 16. ``RequestError/headerSectionTooLarge`` (431).
  public var headerSection = 32768

  /// Most field lines in a header section, and most in a trailer section: 100. Each costs more to keep than to send.
  /// ``RequestError/tooManyFieldLines`` (431).
  public var fieldLines = 100

  /// Most interim responses before a final one: 8. One is usual; a server that sends them for ever keeps a client
  /// waiting. ``ResponseError/tooManyInterimResponses``.
  public var interimResponses = 8

  /// All chunk extensions of one body together, in bytes: 4 KiB. No deployed software uses them, so they only make
  /// a server spend time without progress. ``RequestError/chunkExtensionsTooLong`` (400, RFC 9112 §7.1.1).
  public var chunkExtensions = 4096

  /// Largest trailer section, in bytes, CRLFs included: 8 KiB. Trailers are checked and thrown away.
  /// ``RequestError/trailerSectionTooLarge`` (431).
  public var trailerSection = 8192

  /// The defaults.
  public init() {}
}
