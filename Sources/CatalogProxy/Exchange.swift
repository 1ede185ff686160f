import HTTPMessages
import HTTPTypes

/// A request to the upstream, with who is charged for it and until when it may take.
///
/// Each attempt takes one turn of its caller's share, whatever the request says: for Apple it is one request, whether the
/// caller forces a validation, wants nothing stored, or adds a parameter that no other caller uses.
struct Exchange {
  /// The request, still without the credential.
  let request: UpstreamRequest
  /// Whose share of the quota it takes.
  let caller: QuotaCaller
  /// What it asks for and for whom, for the circuit.
  let subject: CircuitSubject
  /// When it ends, retries and waits included.
  let end: Duration
  /// By which it goes.
  let route: UpstreamRoute
  /// Whether the answer depends on a user, whose token may be the one that is refused.
  let isForUser: Bool
  /// The request's content, watched: what has been read once cannot be sent again.
  let content: WatchedContent?

  init(
    _ request: UpstreamRequest, for call: CatalogCall, end: Duration, route: UpstreamRoute
  ) {
    var request = request
    content = request.content.map { WatchedContent($0) }
    request.content = content
    self.request = request
    caller = call.caller
    subject = CircuitSubject(call)
    self.end = end
    self.route = route
    isForUser = call.target.wantsUserToken
  }

  /// Whether it can be sent as it is.
  var isUntouched: Bool { !(content?.isTouched ?? false) }

  /// What it came to.
  enum Result {
    /// An answer, and the turn that is to be given back when it is read or given up.
    case response(UpstreamResponse, HeldPermit)
    case failure(UpstreamFailure)
    /// The caller has gone.
    case cancelled
  }

  /// Content that knows whether anything of it has been asked for, and whether it broke off.
  final class WatchedContent: ContentReader, @unchecked Sendable {
    // Sendable by confinement, as the content itself.
    private let reader: any ContentReader
    private(set) var isTouched = false
    private(set) var isBroken = false

    init(_ reader: any ContentReader) {
      self.reader = reader
    }

    func read() async throws(ContentError) -> [UInt8]? {
      isTouched = true
      do throws(ContentError) {
        return try await reader.read()
      } catch {
        isBroken = true
        throw error
      }
    }

    func cancel() {
      reader.cancel()
    }
  }
}
