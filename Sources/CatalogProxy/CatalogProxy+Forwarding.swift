import HTTPMessages
import HTTPTypes

/// Requests that the cache is not for: a user's, `/v1/test`, and what its caller wants unstored.
extension CatalogProxy {
  /// Hands a request on, and its answer as it comes.
  func forward(
    _ call: CatalogCall, content: (any ContentReader)?, contentLength: Int?, on upstream: any Upstream
  ) async -> CatalogReply {
    let request = UpstreamRequest(
      call.method, call.target.target, fields: call.fields, content: content, contentLength: contentLength)
    let exchange = Exchange(request, caller: call.caller, isForUser: call.target.kind == .me)
    let status = CacheStatus(.forwarded(call.target.isStorable ? .request : .bypass))
    switch await perform(exchange, on: upstream) {
    case .response(let response) where response.status.kind == .serverError:
      response.content.cancel()
      return .failure(.status(response.status, nextHop: configuration.nextHop), status)
    case .response(let response): return .answer(handOn(response, to: call, status))
    case .failure(let failure): return .failure(failure, status)
    case .cancelled: return .cancelled
    }
  }
}
