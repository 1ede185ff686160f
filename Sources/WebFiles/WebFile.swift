import CEmbeddedFiles

/// A file for browsers that the program has in itself.
public struct WebFile: Sendable {
  /// The path at which a listener serves the file.
  public let path: StaticString
  /// The value of `Content-Type`.
  public let mediaType: String
  /// The content.
  public let content: [UInt8]

  /// Creates the file with a name in `CEmbeddedFiles`. A test serves each of them, so none is empty.
  private init(_ path: StaticString, _ mediaType: String, _ name: String) {
    (self.path, self.mediaType) = (path, mediaType)
    var count = 0
    // Safe: the bytes are as many as the function states, for as long as the program runs.
    content = unsafe Array(UnsafeBufferPointer(start: cembedded_file(name, &count), count: count))
  }

  // The files of this folder and of `docs/recipes`, which the build embeds.

  /// The document.
  public static let page = WebFile("/", "text/html; charset=utf-8", "page.html")

  /// What the document loads.
  public static let partsOfPage = [
    WebFile("/page/page.css", "text/css; charset=utf-8", "page.css"),
    WebFile("/page/icon.svg", "image/svg+xml", "icon.svg"),
    script("/page/page.js"), script("/page/dom.js"), script("/page/api.js"), script("/page/token.js"),
    script("/page/access.js"), script("/page/snippets.js"), script("/page/catalog.js"), script("/page/user.js"),
    script("/page/live.js"),
  ]

  /// The recipes, whose addresses and credentials the page fills in.
  public static let recipes = [
    recipe("/page/recipes/page.html"), recipe("/page/recipes/node.mjs"), recipe("/page/recipes/next.mjs"),
    recipe("/page/recipes/recipe.go"), recipe("/page/recipes/recipe.php"), recipe("/page/recipes/recipe.py"),
    recipe("/page/recipes/recipe.sh"), recipe("/page/recipes/recipe.swift"), recipe("/page/recipes/musickit.swift"),
    recipe("/page/recipes/recipe.kt"),
  ]

  /// The parts of `/openapi.json` that no setting changes.
  public static let openAPI = WebFile("/openapi.json", "application/json", "openapi.json")

  /// The module for web apps, and its types for TypeScript.
  public static let module = [
    script("/musickit-token.js"), WebFile("/musickit-token.d.ts", "text/plain; charset=utf-8", "musickit-token.d.ts"),
  ]

  private static func recipe(_ path: StaticString) -> WebFile { WebFile(path, "text/plain; charset=utf-8", "\(path)") }

  private static func script(_ path: StaticString) -> WebFile {
    WebFile(path, "text/javascript; charset=utf-8", "\(path.description.split(separator: "/").last ?? "")")
  }
}
