import Bytes
import HTTPCache
public import HTTPMessages
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
  ///   - acceptsGzip: Whether a compressed response is of use.
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

extension HeaderPolicy {
  /// The fields of an upstream's response that the caller gets, and `Via`.
  ///
  /// - Parameters:
  ///   - upstream: End-to-end fields as they were received.
  ///   - version: The version of HTTP that the upstream answered in, as `Via` has it: `2`, or `1.1`.
  public func responseFields(_ upstream: HTTPFields, version: StaticString = "2") -> HTTPFields {
    let options = upstream[.connection].map { ConnectionOptions($0.utf8) }
    var fields = HTTPFields()
    fields.reserveCapacity(upstream.count + 1)
    for field in upstream {
      let name = field.name.canonicalName
      guard Self.passes(name), options?.names(name) != true else { continue }
      fields.append(field)
    }
    // A URI is visible ASCII (RFC 3986 §2). What is not, two readers take apart in two ways.
    if let location = fields[.location] {
      let isURI = location.utf8.allSatisfy { (0x21...0x7E).contains($0) }
      fields[.location] = isURI ? origin.localized(location) : nil
    }
    fields.append(HTTPField(name: .via, value: "\(version) \(product)"))
    return fields
  }

  /// Names in lower case. Not among them, for example: `Set-Cookie` and `Access-Control-*`, which would speak for this
  /// origin; `Strict-Transport-Security`, `Alt-Svc` and `Server`, which speak of Apple's hosts; `Link`, which makes
  /// browsers fetch; `Accept-Ranges`, because no range is forwarded.
  ///
  /// By their length first, which tells most others apart without a look at them.
  private static func passes(_ name: String) -> Bool {
    switch name.utf8.count {
    case 3: name == "via"
    case 4: name == "etag"
    case 5: name == "allow"
    case 8: name == "location"
    case 11: name == "retry-after"
    case 12: name == "content-type"
    case 13: name == "last-modified"
    case 16: name == "content-encoding" || name == "content-language" || name == "www-authenticate"
    // What Apple's support asks for.
    case 20: name == "x-apple-request-uuid"
    case 30: name == "x-apple-jingle-correlation-key"
    default: false
    }
  }
}

/// Copies fields of a caller's request by name, unless its `Connection` claims them for this hop.
struct FieldCopier<Fields: RequestFields> {
  private let caller: Fields
  private let connection: RequestFieldValue
  private let options: ConnectionOptions

  init(_ caller: Fields) {
    self.caller = caller
    connection = caller.value(of: "connection")
    if case .single(let value) = connection {
      options = ConnectionOptions(value)
    } else {
      options = ConnectionOptions([])
    }
  }

  /// Whether there is no field of that name.
  func isAbsent(_ name: StaticString) -> Bool {
    caller.value(of: name) == .absent
  }

  /// Copies the field of that name, in lower case, if there is one.
  ///
  /// - Parameter isSecret: Whether it is one word, and nothing that HPACK may keep (RFC 7541 §7.1.3).
  /// - Throws: If there are several, or the value is malformed.
  func copy(
    _ name: StaticString, upTo limit: Int, isSecret: Bool = false, to fields: inout HTTPFields
  ) throws(FieldRefusal) {
    switch caller.value(of: name) {
    case .absent: return
    case .repeated: throw .repeated(name)
    case .single(let value):
      // What several Connection fields name cannot be asked for; to guess could send on what was for this hop.
      guard connection != .repeated else { throw .repeated("connection") }
      guard options.count <= HeaderPolicy.longestValue else { throw .malformed("connection") }
      let lowest: UInt8 = isSecret ? 0x21 : 0x20
      guard !value.isEmpty, value.count <= limit, value.allSatisfy({ $0 >= lowest && $0 < 0x7F }) else {
        throw .malformed(name)
      }
      guard !options.names(name.description), let fieldName = HTTPField.Name(name.description) else { return }
      var field = HTTPField(name: fieldName, value: String(decoding: value, as: UTF8.self))
      if isSecret { field.indexingStrategy = .disallow }
      fields.append(field)
    }
  }
}

/// Why the header fields of a request keep it from going upstream.
public enum FieldRefusal: Error, Sendable, Equatable {
  /// A field that may occur only once occurs several times. Which one counts is not for two servers to guess.
  case repeated(StaticString)
  /// A value is empty, too long, or holds something other than visible ASCII.
  case malformed(StaticString)
  /// A field that would change what the request does, and is not forwarded.
  case unsupported(StaticString)

  /// The response to the caller.
  public var response: ErrorResponse { ErrorResponse(.malformedRequest, detail) }

  /// The `detail` of the error object: one sentence for the caller, without the value.
  public var detail: String {
    switch self {
    case .repeated(let name): "The field \(name) occurs several times."
    case .malformed(let name): "The value of the field \(name) is empty, too long, or not of visible ASCII characters."
    case .unsupported(let name): "A request with the field \(name) is not forwarded."
    }
  }

  /// Whether two refusals are the same.
  public static func == (left: FieldRefusal, right: FieldRefusal) -> Bool {
    left.detail == right.detail
  }
}

/// Looks up the header fields of a caller's request by name. A field that the proxy does not look up cannot go
/// upstream.
public protocol RequestFields {
  /// What the field lines of one name say.
  ///
  /// - Parameter lowercaseName: The name in lower case.
  func value(of lowercaseName: StaticString) -> RequestFieldValue
}

/// What the field lines of one name say.
public enum RequestFieldValue: Sendable, Equatable {
  /// The request does not have the field.
  case absent
  /// The request has one such field; the value comes without the white space around it.
  case single(ArraySlice<UInt8>)
  /// The request has several such fields.
  case repeated
}

/// The names in a `Connection` field: what it names is meant for the next hop alone, and goes no further
/// (RFC 9110 §7.6.1). Read in place each time, since few fields are asked for, and the value may be all commas.
struct ConnectionOptions {
  private let value: [UInt8]

  /// From a field value; empty for none.
  init(_ value: some Sequence<UInt8>) {
    self.value = Array(value)
  }

  /// Its length in bytes.
  var count: Int { value.count }

  /// Whether the field of that name, in lower case, is meant for this hop.
  func names(_ lowercaseName: String) -> Bool {
    let bytes = value.span
    var scanner = FieldScanner()
    while !scanner.isAtEnd(in: bytes) {
      scanner.skipWhitespace(in: bytes)
      let name = scanner.token(in: bytes)
      if bytes.equalsIgnoringCase(name, lowercaseName) { return true }
      _ = scanner.skip(past: ",", in: bytes)
    }
    return false
  }
}
