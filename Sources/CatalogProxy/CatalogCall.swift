public import HTTP1
public import HTTPMessages
public import HTTPTypes

/// One caller's request, judged: everything that the phases need of it.
public struct CatalogCall: Sendable {
  /// What is asked for.
  public let target: CatalogTarget
  /// The method.
  public let method: HTTPRequest.Method
  /// The caller, for sharing the quota fairly.
  public var caller: QuotaCaller
  /// What its `Cache-Control` asks of caches.
  public let directives: RequestDirectives
  /// What it has already.
  public let preconditions: Preconditions
  /// The coding that it likes best.
  public let coding: ContentCoding
  /// The end-to-end fields to send upstream, without the credential.
  public private(set) var fields: HTTPFields

  let key: CacheKey

  /// A call.
  ///
  /// - Parameters:
  ///   - caller: The caller, for sharing the quota fairly.
  ///   - directives: What its `Cache-Control` asks of caches.
  ///   - preconditions: What it has already.
  ///   - coding: The coding that it likes best.
  ///   - fields: What ``HeaderPolicy`` made of its fields.
  public init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, caller: QuotaCaller, directives: RequestDirectives,
    preconditions: Preconditions, coding: ContentCoding, fields: HTTPFields
  ) {
    self.method = method
    self.target = target
    self.caller = caller
    self.directives = directives
    self.preconditions = preconditions
    self.coding = coding
    self.fields = fields
    key = CacheKey(target.cacheKey)
  }

  /// Removes the caller's music user token from the request, for a caller that may not use it.
  public mutating func withholdUserToken() {
    guard target.forwardsUserToken, let name = Self.userToken else { return }
    fields[name] = nil
  }

  private static let userToken = HTTPField.Name("Music-User-Token")

  /// Whether the cache is for such requests at all.
  var isCacheable: Bool { target.isStorable && (method == .get || method == .head) && !directives.noStore }
}

/// What a caller gets.
public enum CatalogReply: Sendable {
  /// An answer of Apple's, from the cache or fresh.
  case answer(CatalogAnswer)
  /// None; and what the cache has to say about it.
  case failure(UpstreamFailure, CacheStatus?)
  /// The caller has gone away.
  case cancelled
}

/// An answer to hand to the caller.
public struct CatalogAnswer: Sendable {
  /// Its status.
  public var status: HTTPResponse.Status
  /// Fields that were written once for all who get it.
  public var prepared: FieldSection = .empty
  /// Its other fields.
  public var fields: HTTPFields
  /// Its content, if it is whole.
  public var body: [UInt8] = []
  /// Its content, if it comes in parts.
  public var stream: (any ContentReader)?
  /// The length of `stream`, if it is known.
  public var streamLength: Int?
}
