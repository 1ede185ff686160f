/// A file for browsers that the program has in itself.
public struct WebFile: Sendable {
  /// The path at which a listener serves the file.
  public let path: StaticString
  /// The value of `Content-Type`.
  public let mediaType: String
  /// The content.
  public let content: [UInt8]

  init(_ path: StaticString, _ mediaType: String, _ content: [UInt8]) {
    (self.path, self.mediaType, self.content) = (path, mediaType, content)
  }
}

/// The files of the page. Each is a file in `Resources/`, which the build embeds.
extension WebFile {
  /// The document.
  public static let page = WebFile("/", "text/html; charset=utf-8", PackageResources.page_html)

  /// What the document loads.
  public static let partsOfPage = [
    WebFile("/page/page.css", "text/css; charset=utf-8", PackageResources.page_css),
    WebFile("/page/icon.svg", "image/svg+xml", PackageResources.icon_svg),
    script("/page/page.js", PackageResources.page_js),
    script("/page/dom.js", PackageResources.dom_js),
    script("/page/api.js", PackageResources.api_js),
    script("/page/token.js", PackageResources.token_js),
    script("/page/access.js", PackageResources.access_js),
    script("/page/snippets.js", PackageResources.snippets_js),
    script("/page/catalog.js", PackageResources.catalog_js),
    script("/page/user.js", PackageResources.user_js),
    script("/page/live.js", PackageResources.live_js),
  ]

  /// The module for web apps, and its types for TypeScript.
  public static let module = [
    script("/musickit-token.js", PackageResources.musickit_token_js),
    WebFile("/musickit-token.d.ts", "text/plain; charset=utf-8", PackageResources.musickit_token_d_ts),
  ]

  private static func script(_ path: StaticString, _ content: [UInt8]) -> WebFile {
    WebFile(path, "text/javascript; charset=utf-8", content)
  }
}
