import HTTPMessages
import HTTPServer
import HTTPTypes
import TLS

extension Router {
  /// `/who` responds with the client, its rateLimitPrefix, and the first URI of its certificate.
  static let who = Router([
    Route(
      "/who",
      [
        .get { request in
          let certificate = request.clientCertificate.map { $0.uris.first ?? "nameless" } ?? "-"
          let client = request.client
          return Response(.ok, body: Array("\(client.name) \(client.rateLimitPrefix) \(certificate)".utf8))
        }
      ])
  ])
}
