import HTTPMessages
import HTTPTypes

/// Requests that the cache is not for: a user's, `/v1/test`, and what its caller wants unstored.
extension CatalogGateway {
  /// Hands a request on, and its answer as it comes.
  func forward(
    _ call: CatalogCall, content: (any ContentReader)?, contentLength: Int?, by route: UpstreamRoute, end: Duration
  ) async -> CatalogReply {
    let request = UpstreamRequest(
      call.method, call.target.target, fields: call.fields, content: content, contentLength: contentLength)
    let exchange = Exchange(request, for: call, end: end, route: route)
    let status = CacheStatus(.forwarded(call.target.isStorable ? .request : .bypass))
    switch await perform(exchange) {
    case .response(let response, let permit):
      return .answer(passThrough(held(response, permit, until: end, route), to: call, status))
    case .failure(let failure): return .failure(failure, status)
    case .cancelled: return .cancelled
    }
  }

  /// A response whose content gives the turn back at its end, or when its time is up: the caller may be slow to read it.
  func held(
    _ response: UpstreamResponse, _ permit: HeldPermit, until end: Duration, _ route: UpstreamRoute
  ) -> UpstreamResponse {
    var response = response
    response.content = PermittedContent(response.content, permit)
    expire(.turn(permit), at: end, route)
    return response
  }
}
