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

/// The endpoint of a file that pages of every origin may load: the module for web apps, and its types. It is the same for
/// all, and contains no secret.
struct WebModuleEndpoint: Sendable {
  private let path: StaticString
  private let current: WebFileEndpoint
  private let versioned: WebFileEndpoint

  /// The query of the address that caches may keep: the version of this program. The content of any other address may be
  /// another one after an update, so browsers ask each time.
  private static let query = Array("v=\(Release.version)".utf8)

  init(_ file: WebFile) {
    path = file.path
    // No Vary for Origin, because the response does not depend on it.
    var fields: HTTPFields = [.vary: "Accept-Encoding", .crossOriginResourcePolicy: "cross-origin"]
    current = WebFileEndpoint(file, fields: fields)
    fields[.cacheControl] = "public, max-age=31536000, immutable"
    versioned = WebFileEndpoint(file, fields: fields)
  }

  var route: Route { Route(get: path) { response(to: $0) } }

  private func response(to request: Request) -> Response {
    let isVersioned = request.query?.elementsEqual(Self.query) ?? false
    var response = (isVersioned ? versioned : current).response(to: request)
    response.fields[.accessControlAllowOrigin] = "*"
    return response
  }
}
