public import HTTPTypes

/// Which header fields pass through the proxy: an allow-list in each direction.
///
/// **To Apple** the proxy sends its own fields. It sends none of the caller's fields if the cache may answer the
/// request or share the response: a field that is not part of the key must not change the response. The parameter `l`
/// selects the language, the cache sends validators, and the proxy does not forward ranges. Below `/v1/me`, where the
/// proxy shares nothing, it also sends preconditions and the fields that describe the content. It sends
/// `Music-User-Token` where ``CatalogTarget/forwardsUserToken`` says so. It adds the credential last, so that no other
/// field can replace it.
///
/// **To the caller** the proxy sends the fields that describe the representation, and those that developers need for
/// Apple's support. It does not send `Cache-Control`, `Age`, `Expires`, `Date` and `Vary`: the server writes its own.
public struct HeaderPolicy: Sendable {
  /// The longest `Music-User-Token`, in bytes: 4 KiB. Those that have been seen are shorter than 400.
  public static let longestUserToken = 4096

  /// The longest of the other values that go along, in bytes: 1 KiB.
  public static let longestValue = 1024

  let origin: UpstreamOrigin
  /// The name in `Via` and `User-Agent`.
  let product: String
  /// What goes to Apple with every request, from those who take gzip and from those who do not: made once.
  private let gzipFields: HTTPFields
  private let identityFields: HTTPFields

  /// A policy.
  ///
  /// - Parameters:
  ///   - upstream: Scheme and authority of the upstream, such as `https://api.music.apple.com`.
  ///   - product: A token (RFC 9110 §5.6.2), the name in `Via` and `User-Agent`.
  public init(upstream: String, product: String = "musickit-token-server") {
    origin = UpstreamOrigin(upstream)
    self.product = product
    gzipFields = Self.ownFields(accepting: "gzip", product)
    identityFields = Self.ownFields(accepting: "identity", product)
  }

  /// The end-to-end fields to send upstream, still without the credential.
  ///
  /// - Parameters:
  ///   - target: What is asked for.
  ///   - caller: The caller's fields.
  ///   - hasContent: Whether content goes along.
  ///   - acceptsGzip: Whether a compressed answer is of use.
  /// - Throws: What in the caller's fields keeps the request from going upstream.
  public func requestFields(
    for target: CatalogTarget, from caller: some RequestFields, hasContent: Bool = false, acceptsGzip: Bool = true
  ) throws(FieldRefusal) -> HTTPFields {
    var fields = acceptsGzip ? gzipFields : identityFields
    guard target.wantsUserToken else { return fields }
    let copier = FieldCopier(caller)
    if target.forwardsUserToken {
      try copier.copy("music-user-token", upTo: Self.longestUserToken, isSecret: true, to: &fields)
    }
    guard target.kind == .me else { return fields }
    for name in Self.preconditions { try copier.copy(name, upTo: Self.longestValue, to: &fields) }
    if hasContent { try copyContentFields(copier, to: &fields) }
    return fields
  }

  private static func ownFields(accepting coding: String, _ product: String) -> HTTPFields {
    [
      .accept: "application/json", .acceptEncoding: coding, .userAgent: product,
      // RFC 9110 §7.6.3: a gateway tells the inbound server about itself; the version is the same for all callers.
      .via: "1.1 \(product)",
    ]
  }

  /// The credential that a developer token, in compact form, makes.
  static func credential(_ developerToken: String) -> HTTPField {
    var credential = HTTPField(name: .authorization, value: "Bearer \(developerToken)")
    // RFC 7541 §7.1.3: it must not be guessed at through a compression table.
    credential.indexingStrategy = .disallow
    return credential
  }

  /// Adds the credential: the last step before a request is sent.
  static func authorize(_ fields: inout HTTPFields, with credential: HTTPField) {
    guard fields.contains(.authorization) else { return fields.append(credential) }
    fields[fields: .authorization] = [credential]
  }

  /// What describes the content. A part of a representation must not be taken for the whole (RFC 9110 §14.5).
  private func copyContentFields(
    _ copier: FieldCopier<some RequestFields>, to fields: inout HTTPFields
  ) throws(FieldRefusal) {
    guard copier.isAbsent("content-range") else { throw .unsupported("content-range") }
    for name in Self.contentFields { try copier.copy(name, upTo: Self.longestValue, to: &fields) }
  }

  /// Left out, they would turn a conditional change into an unconditional one (RFC 9110 §13.1).
  private static let preconditions: [StaticString] = [
    "if-match", "if-none-match", "if-modified-since", "if-unmodified-since",
  ]

  private static let contentFields: [StaticString] = ["content-type", "content-encoding", "content-language"]
}
