import HTTPMessages
import HTTPServer
import HTTPTypes
import WebFiles

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
