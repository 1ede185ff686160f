import HTTPMessages
import HTTPTypes
import ServerSettings

/// What a browser may load for the page, and to whom it may show the page.
struct PageSecurity {
  private var scripts = ["'self'"]
  private var connections = ["'self'"]
  private var images = ["'self'"]
  /// Whether the page runs only its own scripts, so that no code may make scripts from text (Trusted Types).
  private var isClosed = true

  /// Allows nothing outside of the listener.
  init() {}

  /// Allows Apple's artwork, and MusicKit JS if users can sign in. In the demo the emulator takes Apple's place.
  init(publicPageOf settings: Settings, isDemo: Bool) {
    guard let catalog = settings.catalog else { return }
    images.append(isDemo ? catalog.upstream.description : "https://*.mzstatic.com")
    guard catalog.me, !isDemo else { return }
    scripts.append("https://js-cdn.music.apple.com")
    connections.append("https://*.music.apple.com")
    isClosed = false
  }

  var fields: HTTPFields {
    var fields = Self.ofParts
    fields[.contentSecurityPolicy] = policy
    // MusicKit JS opens a window of Apple, which responds to the page.
    fields[.crossOriginOpenerPolicy] = isClosed ? "same-origin" : "same-origin-allow-popups"
    return fields
  }

  /// The fields of everything that the document loads.
  static let ofParts: HTTPFields = [.referrerPolicy: "no-referrer", .crossOriginResourcePolicy: "same-origin"]

  private var policy: String {
    let directives = [
      "default-src 'none'", "script-src \(scripts.joined(separator: " "))", "style-src 'self'",
      "img-src \(images.joined(separator: " "))", "connect-src \(connections.joined(separator: " "))",
      "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    ]
    return (directives + (isClosed ? ["require-trusted-types-for 'script'", "trusted-types 'none'"] : []))
      .joined(separator: "; ")
  }
}

extension HTTPField.Name {
  fileprivate static let referrerPolicy = HTTPField.Name.literal("Referrer-Policy")
  fileprivate static let crossOriginOpenerPolicy = HTTPField.Name.literal("Cross-Origin-Opener-Policy")
  fileprivate static let crossOriginResourcePolicy = HTTPField.Name.literal("Cross-Origin-Resource-Policy")
}
