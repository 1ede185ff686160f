public import HTTPTypes

/// The path of a request under `/v1`, judged: all that it takes to say which permission the request needs.
///
/// Its cost is bounded by the longest path. The query and the fields cost more, and are for callers who have permission:
/// they become a ``CatalogTarget``.
public struct CatalogPath: Sendable {
  /// Whose resource it is.
  public let kind: CatalogTarget.Kind
  /// The template of the path, one of a fixed few: a label for logs and metrics.
  public let route: StaticString
  /// The storefront in the path, two lower-case letters; nil if the path has none.
  public let storefront: String?
  /// What to send upstream: the same segments, without any escape.
  let bytes: [UInt8]
  let allowsMe: Bool

  /// Judges a path.
  ///
  /// - Parameters:
  ///   - path: As it was received, escapes and all.
  ///   - allowsMe: Whether `/v1/me` is forwarded.
  /// - Throws: What is wrong with it.
  public init(_ path: Span<UInt8>, allowsMe: Bool, limits: TargetLimits = TargetLimits()) throws(TargetRefusal) {
    let segments = try PathSegments(path, limits: limits)
    let route = try CatalogRoute(segments, allowsMe: allowsMe)
    (kind, self.route, storefront) = (route.kind, route.template, route.storefront)
    (bytes, self.allowsMe) = (segments.path, allowsMe)
  }

  /// Whether a method may be used on it: `GET` and `HEAD`; below `/v1/me`, what Apple documents there, too.
  public func allows(_ method: HTTPRequest.Method) -> Bool { kind.allows(method) }

  /// The value of `Allow` (RFC 9110 §10.2.1); `OPTIONS` is the server's own.
  public var allow: StaticString { kind.allow }
}
