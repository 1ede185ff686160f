import DeveloperToken
import HTTPServer

/// The `Origin` field of a request (RFC 6454 §7).
enum RequestOrigin {
  case absent
  /// One origin.
  case present(Origin)
  /// `null`, several, or not an origin.
  case unusable(String)

  init(_ request: Request) {
    switch request.field("origin") {
    case .absent:
      self = .absent
    case .repeated:
      self = .unusable("An origin sent twice")
    case .single(let value):
      let text = String(decoding: value, as: UTF8.self)
      // A browser sends it serialised. What differs from that is not from a browser, and not to be guessed at.
      if let origin = try? Origin(text), origin.description == text {
        self = .present(origin)
      } else {
        self = .unusable(String(text.prefix(120)))
      }
    }
  }
}
