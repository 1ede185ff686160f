import Bytes
public import HTTPTypes

/// What a request under `/v1` asks Apple for: its target, judged once, before anything of it leaves.
///
/// The path is taken apart segment by segment with its escapes undone, and what was judged is what is sent: the same
/// segments, without any escape. The query is sent byte for byte.
public struct CatalogTarget: Sendable, Equatable {
  /// Whose resource it is.
  public let kind: Kind
  /// The template of the path, one of a fixed few: a label for logs and metrics.
  public let route: StaticString
  /// The storefront in the path, two lower-case letters; nil if the path has none.
  public let storefront: String?
  /// What to send upstream, in origin form (RFC 9112 §3.2.1).
  public let bytes: [UInt8]
  /// What a cache may take for the same target: the path, and the query in an order and a spelling that do not matter to
  /// Apple. Different in every doubt.
  public let cacheKey: [UInt8]
  /// Whether the response depends on a user: everything under `/v1/me`, and requests with `relate=library` or
  /// `filter[identity]=personal`. Only one caller may have such a response: the proxy never stores or shares it.
  public let wantsUserToken: Bool
  /// Whether the caller's music user token goes along, which is so for what wants it if `/v1/me` is forwarded at all.
  public let forwardsUserToken: Bool

  /// Judges a request target.
  ///
  /// - Parameters:
  ///   - path: As it was received, escapes and all.
  ///   - query: The query as received, without its question mark; nil if the target has no query.
  ///   - allowsMe: Whether `/v1/me` is forwarded.
  /// - Throws: What is wrong with it.
  public init(
    path: Span<UInt8>, query: Span<UInt8>?, allowsMe: Bool, limits: TargetLimits = TargetLimits()
  ) throws(TargetRefusal) {
    try self.init(CatalogPath(path, allowsMe: allowsMe, limits: limits), query: query, limits: limits)
  }

  /// Judges the query behind a path that has been judged.
  ///
  /// - Parameter query: The query as received, without its question mark; nil if the target has no query.
  /// - Throws: What is wrong with it.
  public init(_ path: CatalogPath, query: Span<UInt8>?, limits: TargetLimits = TargetLimits()) throws(TargetRefusal) {
    kind = path.kind
    route = path.route
    storefront = path.storefront
    var bytes = path.bytes
    var cacheKey = bytes
    var asksAboutUser = false
    if let query {
      let parameters = try QueryParameters(query, limits: limits)
      asksAboutUser = parameters.asksAboutUser
      bytes.append(UInt8(ascii: "?"))
      bytes.append(copying: query)
      cacheKey.append(UInt8(ascii: "?"))
      cacheKey.append(contentsOf: parameters.normalForm)
    }
    self.bytes = bytes
    self.cacheKey = cacheKey
    wantsUserToken = kind == .me || (kind == .catalog && asksAboutUser)
    forwardsUserToken = wantsUserToken && path.allowsMe
  }

  /// ``bytes`` as text, for an `UpstreamRequest`.
  public var target: String { String(decoding: bytes, as: UTF8.self) }

  /// Whether its answer may be stored, and given to others who ask the same.
  public var isStorable: Bool {
    switch kind {
    case .catalog, .storefronts, .language: !wantsUserToken
    case .test, .me: false
    }
  }

  /// Whether a method may be used on it: `GET` and `HEAD`; below `/v1/me`, what Apple documents there, too.
  public func allows(_ method: HTTPRequest.Method) -> Bool { kind.allows(method) }

  /// The value of `Allow` (RFC 9110 §10.2.1); `OPTIONS` is the server's own.
  public var allow: StaticString { kind.allow }

  /// Whether two targets are the same.
  public static func == (left: CatalogTarget, right: CatalogTarget) -> Bool {
    left.bytes == right.bytes && left.forwardsUserToken == right.forwardsUserToken
  }
}
