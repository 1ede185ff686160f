import HTTP1
import HTTPCache
import HTTPMessages
import HTTPServer
import HTTPTypes
import WebFiles

/// The endpoint of a file in the program: `GET` and `HEAD`, compressed if the caller accepts gzip, with 304 for a caller
/// that has the file already.
struct WebFileEndpoint: Sendable {
  private let path: StaticString
  private let representation: FixedRepresentation
  /// The fields of 304, without those that only describe content (RFC 9110 §15.4.5).
  private let common: FieldSection
  private let plain: FieldSection
  private let compressed: FieldSection

  /// Creates the endpoint, and compresses the file.
  ///
  /// - Parameter fields: The fields that this file has besides its type and those of caches. By default, browsers ask for
  ///   the file each time, because its path is the same in another release.
  init(_ file: WebFile, fields: HTTPFields = [:]) {
    path = file.path
    representation = FixedRepresentation(file.content)
    var common: HTTPFields = [
      .eTag: representation.entityTag, .cacheControl: "no-cache", .vary: "Accept-Encoding, Origin",
      .xContentTypeOptions: "nosniff",
    ]
    for field in fields { common[field.name] = field.value }
    self.common = FieldSection(common)
    common[.contentType] = file.mediaType
    plain = FieldSection(common)
    common[.contentEncoding] = "gzip"
    compressed = FieldSection(common)
  }

  var route: Route { Route(get: path) { response(to: $0) } }

  func response(to request: Request) -> Response {
    var coding: ContentCoding?
    request.forEach("accept-encoding") { coding = coding ?? ContentCoding.preferred(acceptEncoding: $0) }
    var preconditions = Preconditions()
    request.forEach("if-none-match") { preconditions.add(ifNoneMatch: $0) }
    switch representation.selection(for: coding ?? .identity, preconditions) {
    case .notModified: return Response(.notModified, prepared: common)
    case .content(let content, .gzip): return Response(.ok, prepared: compressed, body: content)
    case .content(let content, .identity): return Response(.ok, prepared: plain, body: content)
    }
  }
}
