import Bytes
package import HTTP1
import HTTPCache
package import HTTPMessages
import HTTPTypes
import Tracing

/// The policy for header fields that pass through the proxy: an allow-list in each direction.
///
/// **To Apple** the proxy sends its own fields. It sends none of the caller's fields if the cache may answer the request or
/// share the response (docs/decisions.md, 23). Below `/v1/me`, where the proxy shares nothing, it also sends preconditions
/// and the fields that describe the content. It sends `Music-User-Token` where ``CatalogTarget/wantsUserToken`` says so. It
/// adds the trace context and then the credential to each attempt, last, so that no other field can replace them.
///
/// **To the caller** the proxy sends the fields that describe the representation, and those that developers need for
/// Apple's support. It does not send `Cache-Control`, `Age`, `Expires`, `Date` and `Vary`: the server writes its own.
package final class HeaderPolicy: Sendable {
  /// The maximum length of `Music-User-Token` in bytes: 4 KiB. The known tokens are shorter than 400.
  static let longestUserToken = 4096
  /// The maximum length of the other forwarded values in bytes: 1 KiB.
  static let longestValue = 1024

  let origin: UpstreamOrigin
  /// The name in `Via` and `User-Agent`: a token (RFC 9110 §5.6.2).
  private static let product = "musickit-token-server"
  /// `Via` in responses that came over HTTP/1.1 and HTTP/2. Created once.
  private let viaHTTP1: FieldLines = [.via: "1.1 \(HeaderPolicy.product)"]
  private let viaHTTP2: FieldLines = [.via: "2 \(HeaderPolicy.product)"]
  /// The fields of every request to Apple, for callers with and without support for gzip. Created once.
  private let gzipFields = HeaderPolicy.ownFields(accepting: "gzip")
  private let identityFields = HeaderPolicy.ownFields(accepting: "identity")

  package init(upstream: String) { origin = UpstreamOrigin(upstream) }

  /// Returns the end-to-end fields to send upstream, without the credential. Throws if the caller's do not allow that.
  package func requestFields(
    for target: CatalogTarget, from caller: some RequestFields, hasContent: Bool = false, acceptsGzip: Bool = true
  ) throws(FieldRefusal) -> FieldLines {
    var fields = acceptsGzip ? gzipFields : identityFields
    guard target.wantsUserToken else { return fields }
    try caller.copyUserToken(to: &fields)
    guard target.kind == .me else { return fields }
    for name in Self.preconditions { try caller.copy(name, upTo: Self.longestValue, to: &fields) }
    guard hasContent else { return fields }
    // A part of a representation (RFC 9110 §14.5).
    guard caller.isAbsent("content-range") else { throw .unsupported("content-range") }
    for name in Self.contentFields { try caller.copy(name, upTo: Self.longestValue, to: &fields) }
    return fields
  }

  private static func ownFields(accepting coding: String) -> FieldLines {
    [
      .accept: "application/json", .acceptEncoding: coding, .userAgent: product,
      // RFC 9110 §7.6.3: a gateway identifies itself to the upstream. The version is the same for all callers.
      .via: "1.1 \(product)",
    ]
  }

  /// Returns the field with a developer token. A compression table must not help to guess it (RFC 7541 §7.1.3).
  static func credential(_ token: String) -> FieldLines {
    var fields = FieldLines()
    fields.append("Authorization", Array("Bearer \(token)".utf8).span, isUnindexed: true)
    return fields
  }

  /// Adds the trace context (W3C Trace Context) of one attempt. It differs in each, so HPACK must not index it.
  static func trace(_ fields: inout FieldLines, as span: SpanContext) {
    fields.reserveCapacity(fields.count + 2, bytes: fields.bytes.count + roomForTrace)
    fields.append("traceparent", count: SpanContext.length, isUnindexed: true) { span.appendTraceparent(to: &$0) }
    span.state?.description.withUTF8Bytes { fields.append("tracestate", $0, isUnindexed: true) }
  }

  /// The bytes of the field `traceparent`, rounded up.
  private static let roomForTrace = 96

  /// The preconditions. Without them, a conditional change would become an unconditional one (RFC 9110 §13.1).
  private static let preconditions: [StaticString] = [
    "if-match", "if-none-match", "if-modified-since", "if-unmodified-since",
  ]

  private static let contentFields: [StaticString] = ["content-type", "content-encoding", "content-language"]

  /// Returns those end-to-end fields of an upstream response that the caller gets, and `Via` with its version, `2` or `1.1`.
  /// `isForCache`: those as well by which the cache judges the response.
  package func responseFields(
    _ upstream: FieldLines, version: StaticString = "2", isForCache: Bool = false
  ) -> FieldLines {
    var fields =
      isForCache
      ? upstream.filter { Self.passes($0, in: $1) || ReceivedResponse.isForCacheOnly($0, in: $1) }
      : upstream.filter(Self.passes)
    if let location = fields.text(of: "location") {
      // A URI consists of visible ASCII (RFC 3986 §2); two recipients could parse other characters in two ways.
      let isURI = location.utf8.allSatisfy { (0x21...0x7E).contains($0) }
      fields[.location] = isURI ? origin.localized(location) : nil
    }
    fields.append(contentsOf: version.utf8CodeUnitCount == 1 ? viaHTTP2 : viaHTTP1)
    return fields
  }

  /// Returns whether a field of this name passes to the caller. Examples of names that do not pass:
  /// `Set-Cookie` and `Access-Control-*`, which would apply to this origin; `Strict-Transport-Security`, `Alt-Svc` and
  /// `Server`, which describe Apple's hosts; `Link`, which makes browsers fetch; `Accept-Ranges`, because the proxy
  /// forwards no range.
  private static func passes(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    func isNamed(_ other: StaticString) -> Bool { bytes.equalsIgnoringCase(name, other) }
    return switch name.count {
    case 3: isNamed("via")
    case 4: isNamed("etag")
    case 5: isNamed("allow")
    case 8: isNamed("location")
    case 11: isNamed("retry-after")
    case 12: isNamed("content-type")
    case 13: isNamed("last-modified")
    case 16: isNamed("content-encoding") || isNamed("content-language") || isNamed("www-authenticate")
    // Fields that Apple's support needs.
    case 20: isNamed("x-apple-request-uuid")
    case 30: isNamed("x-apple-jingle-correlation-key")
    default: false
    }
  }
}

/// The header fields of a caller's request, by name. A field that the proxy does not look up cannot reach the upstream.
package protocol RequestFields {
  /// Returns the value of the field with this name, which is in lower case.
  func field(_ name: StaticString) -> FieldOccurrence<ArraySlice<UInt8>>
}

/// Copies of single fields, except for those that the request's `Connection` names.
extension RequestFields {
  /// Copies the music user token, which may have its older name. Apple gets it by the documented one. Throws if both names
  /// occur, with different values: one server could choose one, and Apple the other.
  fileprivate func copyUserToken(to fields: inout FieldLines) throws(FieldRefusal) {
    let (present, older): (StaticString, StaticString) = ("music-user-token", "media-user-token")
    let isOlder = isAbsent(present)
    guard isOlder || isAbsent(older) || field(present) == field(older) else {
      throw .different(present, older)
    }
    try copy(isOlder ? older : present, as: present, upTo: HeaderPolicy.longestUserToken, isSecret: true, to: &fields)
  }

  fileprivate func isAbsent(_ name: StaticString) -> Bool { field(name) == .absent }

  /// Copies the field with this lower-case name, if the request has one, under the same or a new name. Throws if there are
  /// several, or the value is malformed. A secret must have no spaces, and HPACK must not index it (RFC 7541 §7.1.3).
  fileprivate func copy(
    _ name: StaticString, as newName: StaticString? = nil, upTo limit: Int, isSecret: Bool = false,
    to fields: inout FieldLines
  ) throws(FieldRefusal) {
    switch field(name) {
    case .absent: return
    case .repeated: throw .repeated(name)
    case .single(let value):
      let isForThisHop = try isForThisHop(name)
      let lowest: UInt8 = isSecret ? 0x21 : 0x20
      guard !value.isEmpty, value.count <= limit, value.allSatisfy({ $0 >= lowest && $0 < 0x7F }) else {
        throw .malformed(name)
      }
      if !isForThisHop { fields.append(newName ?? name, value.span, isUnindexed: isSecret) }
    }
  }

  /// Returns whether `Connection` names a field, which must not be forwarded then (RFC 9110 §7.6.1). Scans the options in
  /// place, because they may be all commas.
  private func isForThisHop(_ name: StaticString) throws(FieldRefusal) -> Bool {
    let options: ArraySlice<UInt8>
    switch field("connection") {
    case .absent: return false
    // The options of several fields are not available. A guess could forward a field meant for this hop.
    case .repeated: throw .repeated("connection")
    case .single(let value): options = value
    }
    guard options.count <= HeaderPolicy.longestValue else { throw .malformed("connection") }
    let bytes = options.span
    var scanner = FieldScanner()
    while !scanner.isAtEnd(in: bytes) {
      scanner.skipWhitespace(in: bytes)
      if bytes.equalsIgnoringCase(scanner.token(in: bytes), name) { return true }
      _ = scanner.skip(past: ",", in: bytes)
    }
    return false
  }
}

/// The reason why the header fields of a request do not allow it to be forwarded.
package enum FieldRefusal: Error, Sendable, Equatable {
  /// A field that may occur only once occurs several times. Two servers could choose different ones.
  case repeated(StaticString)
  case different(StaticString, StaticString)
  /// A value is empty, too long, or contains something other than visible ASCII.
  case malformed(StaticString)
  /// The proxy does not forward this field, which would change the effect of the request.
  case unsupported(StaticString)

  package var response: ErrorResponse { ErrorResponse(.malformedRequest, detail) }

  /// The `detail` of the error object: one sentence, which does not contain the field's value.
  var detail: String {
    switch self {
    case .repeated(let name): "The request has the field \(name) several times."
    case .different(let name, let older):
      "The fields \(name) and \(older) have different values. Send \(name) alone."
    case .malformed(let name):
      "The value of the field \(name) is empty, too long, or has characters other than visible ASCII."
    case .unsupported(let name): "The server does not forward requests with the field \(name)."
    }
  }

  package static func == (left: FieldRefusal, right: FieldRefusal) -> Bool { left.detail == right.detail }
}

/// Which content of Apple's passes.
extension UpstreamResponse {
  /// Whether the content is JSON (RFC 6839 §3.1): Apple's own, and not a page of a server before Apple's.
  var isJSON: Bool { contentLength != 0 && (hasUsualType || MediaType(self)?.isJSON ?? false) }
  /// Whether content of this type passes. Without a type it does: browsers do not run it, because of `nosniff`.
  var hasPassableType: Bool { hasUsualType || MediaType(self)?.isPassable ?? !fields.has("content-type") }
  /// The media type, for an error; nil if the response has none, or one that is not safe to quote.
  var typeName: String? { MediaType(self)?.name }

  /// Whether the type is `application/json`, spelled as Apple does in nearly every response. Saves 2,400 instructions.
  private var hasUsualType: Bool {
    let fields = fields
    guard case .single(let value) = fields.value(of: "content-type") else { return false }
    let usual: StaticString = "application/json"
    let bytes = fields.bytes.span
    let end = value.lowerBound + usual.utf8CodeUnitCount
    guard end <= value.upperBound, bytes.equals(value.lowerBound..<end, usual) else { return false }
    guard end < value.upperBound else { return true }
    guard bytes[end] == UInt8(ascii: ";") else { return false }
    return (end..<value.upperBound).allSatisfy { bytes[$0] != UInt8(ascii: ",") }
  }
}

/// A media type (RFC 9110 §8.3.1) without its parameters.
private struct MediaType {
  private let bytes: [UInt8]

  /// Returns nil if the type is absent or malformed. A browser takes what follows the last comma for the type, also in a
  /// parameter (the Fetch standard, "extract a MIME type").
  init?(_ response: UpstreamResponse) {
    guard let text = response.fields.text(of: "content-type"), !text.utf8.contains(UInt8(ascii: ",")) else {
      return nil
    }
    bytes = text.utf8.prefix { $0 != UInt8(ascii: ";") && !$0.isWhitespace }.map(\.lowercased)
    let rest = text.utf8.dropFirst(bytes.count).drop(while: \.isWhitespace)
    guard (3...100).contains(bytes.count), bytes.contains(UInt8(ascii: "/")),
      rest.first ?? UInt8(ascii: ";") == UInt8(ascii: ";"),
      bytes.allSatisfy({ $0.isUnreservedInURI || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "+") })
    else { return nil }
  }

  var name: String { String(decoding: bytes, as: UTF8.self) }

  var isJSON: Bool {
    bytes.elementsEqual("application/json".utf8)
      || (bytes.starts(with: "application/".utf8) && bytes.suffix(5).elementsEqual("+json".utf8))
  }

  /// Whether a browser that opens the content runs nothing in it, whatever it contains.
  var isPassable: Bool { isJSON || Self.passable.contains { bytes.elementsEqual($0.bytes) } }

  /// The types beside JSON. SVG, XML and HTML are not among them: they can have scripts.
  private static let passable: [ByteString] = [
    "application/octet-stream", "image/gif", "image/jpeg", "image/png", "image/webp", "text/plain",
  ]
}

/// Scheme and authority of the upstream, to recognize them in a `Location`.
struct UpstreamOrigin: Sendable {
  /// The beginnings of its URIs, and of references that lack only the scheme (RFC 3986 §4.2), with and without the default
  /// port: in lower case, up to the slash of the path.
  private let beginnings: [[UInt8]]

  init(_ text: String) {
    let bytes = text.utf8.map(\.lowercased)
    let scheme = bytes.prefix { $0 != UInt8(ascii: "/") }
    guard scheme.last == UInt8(ascii: ":"), bytes[scheme.endIndex...].starts(with: "//".utf8) else {
      beginnings = []
      return
    }
    let authority = bytes[(scheme.endIndex + 2)...].prefix { !"/?#\\".utf8.contains($0) }
    let port = Array((scheme.elementsEqual("https:".utf8) ? ":443" : ":80").utf8)
    let other = authority.suffix(port.count) == port[...] ? authority.dropLast(port.count) : authority + port
    let starts = [scheme + Array("//".utf8), ArraySlice("//".utf8)]
    beginnings = starts.flatMap { start in [authority, other].map { Array(start + $0) + [UInt8(ascii: "/")] } }
  }

  /// Returns a `Location` (RFC 9110 §10.2.2) for the caller. A URI of the upstream becomes a path, so that a caller that
  /// follows it sends the request to this server, which has the token. It compares bytes, so that a combining character
  /// after a slash does not hide the slash.
  func localized(_ location: String) -> String {
    let bytes = Array(location.utf8)
    let lowercase = bytes.map(\.lowercased)
    guard let beginning = beginnings.first(where: { lowercase.starts(with: $0) }) else { return location }
    let path = bytes[(beginning.count - 1)...]
    // `//host` would name another host (RFC 3986 §4.2), and browsers treat `\` as a slash.
    guard !path.starts(with: "//".utf8), !path.starts(with: "/\\".utf8) else { return location }
    return String(decoding: path, as: UTF8.self)
  }
}
