import HTTPMessages
import HTTPTypes

/// Requests that the cache is not for: a user's, `/v1/test`, and what its caller wants unstored.
extension CatalogProxy {
  /// Hands a request on, and its answer as it comes.
  func forward(
    _ call: CatalogCall, content: (any ContentReader)?, contentLength: Int?, by route: UpstreamRoute, end: Duration
  ) async -> CatalogReply {
    let request = UpstreamRequest(
      call.method, call.target.target, fields: call.fields, content: content, contentLength: contentLength)
    // A caller who wants an answer of its own where there may be one for all pays for that.
    let exchange = Exchange(
      request, caller: call.caller, cost: call.target.isStorable ? Self.forcedCost : 1, end: end, route: route,
      isForUser: call.target.wantsUserToken)
    let status = CacheStatus(.forwarded(call.target.isStorable ? .request : .bypass))
    switch await perform(exchange) {
    case .response(let response, let permit):
      return .answer(handOn(held(response, permit, until: end, route), to: call, status))
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

  /// What a caller pays of its own share for an answer that is stored and fresh, or could be, but that it wants anew.
  static let forcedCost = 4
}
