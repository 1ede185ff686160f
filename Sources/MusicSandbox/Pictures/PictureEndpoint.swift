/// Serves the pictures that artwork URLs lead to: `/image/thumb/…/{type}-{id}/{w}x{h}bb.png`. Like Apple's, they need no
/// token.
enum PictureEndpoint {
  /// - Parameter segments: Those behind `image`.
  static func answer(
    _ request: SandboxRequest, _ segments: ArraySlice<String>, catalog: Catalog
  ) throws(AppleError) -> SandboxAnswer {
    guard request.method == "GET" || request.method == "HEAD" else { throw .methodNotAllowed("GET, HEAD") }
    guard segments.first == "thumb", segments.count >= 3, let size = size(segments[segments.endIndex - 1]),
      let key = key(segments[segments.endIndex - 2])
    else { throw .pathNotFound }
    guard catalog.contains(key),
      let png = PNG.gradient(width: size.width, height: size.height, Artwork(of: key).colours)
    else { throw .resourceNotFound }
    return SandboxAnswer(
      200,
      fields: [SandboxField("Content-Type", "image/png"), SandboxField("Cache-Control", "public, max-age=86400")],
      content: png)
  }

  /// Width and height of `400x300bb.png`, no larger than there are.
  private static func size(_ name: String) -> (width: Int, height: Int)? {
    guard name.hasSuffix("bb.png") else { return nil }
    let sides = name.dropLast(6).split(separator: "x", omittingEmptySubsequences: false)
    guard sides.count == 2, let width = UInt16(sides[0]), let height = UInt16(sides[1]), width > 0, height > 0 else {
      return nil
    }
    return (min(Int(width), Artwork.maximumSide), min(Int(height), Artwork.maximumSide))
  }

  /// The resource of `albums-1200868601`; a type may have a hyphen too.
  private static func key(_ name: String) -> ResourceKey? {
    for type in ResourceType.allCases where name.hasPrefix("\(type.rawValue)-") {
      return ResourceKey(type, String(name.dropFirst(type.rawValue.utf8.count + 1)))
    }
    return nil
  }
}
