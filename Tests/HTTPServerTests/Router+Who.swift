import HTTPMessages
import HTTPServer
import HTTPTypes
import TLS

extension Router {
  /// `/who` says who asks: client, rateLimitPrefix, and the first URI of the certificate.
  static let who = Router([
    Route(
      "/who",
      [
        .get { request in
          let certificate = request.clientCertificate.map { $0.uris.first ?? "nameless" } ?? "-"
          return Response(.ok, body: Array("\(request.clientAddress) \(request.rateLimitPrefix) \(certificate)".utf8))
        }
      ])
  ])
}
