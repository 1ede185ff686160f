import Access
import Bytes
import DeveloperToken
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON
import Telemetry

/// The endpoint `GET` and `POST /token`: a developer token for a caller that may have one.
/// An object, because each function that needs it then keeps one reference.
final class TokenEndpoint: Sendable {
  let minter: TokenMinter
  let gate: AccessGate
  let bodyLimit: Int

  init(minter: TokenMinter, gate: AccessGate, bodyLimit: Int) {
    (self.minter, self.gate, self.bodyLimit) = (minter, gate, bodyLimit)
  }

  var route: Route {
    Route("/token", [.get(reply: { self.reply(to: $0) }), .post(bodyLimit: bodyLimit, judge: { self.judge($0) })])
  }

  /// Checks identity, rate and permission, in this order. Query and content are parsed only for a permitted caller.
  private func reply(to request: Request) -> Reply {
    let auditContext = AuditContext(request)
    switch gate.admit(request, auditContext) {
    case .immediate(.admitted(let admitted)): return reply(to: admitted, Wish(request, takesContent: false))
    case .immediate(.refused(let response)): return .immediate(response)
    case .deferred(let wait):
      let wish = Wish(request, takesContent: false).copied()
      return gate.reply(after: wait, auditContext) { admitted, _ in self.reply(to: admitted, wish) }
    }
  }

  private func judge(_ request: Request) -> HeadReply {
    let auditContext = AuditContext(request)
    let wish = Wish(request).copied()
    switch gate.admit(request, auditContext) {
    case .immediate(.refused(let response)): return .immediate(response)
    case .immediate(.admitted(let admitted)): return .read { self.reply(to: admitted, wish, $0) }
    case .deferred(let wait):
      return .read { content in
        self.gate.reply(after: wait, auditContext) { admitted, _ in self.reply(to: admitted, wish, content) }
      }
    }
  }

  /// Checks whether the caller may have the token that a request without content is for, and makes none.
  func check(_ caller: Principal, _ request: Request) throws(Denial) {
    let grant = try Self.grant(for: caller, Wish(request), [])
    do throws(TokenError) { try minter.check(ttl: grant.ttl, origins: grant.origins, now: Glibc.time(nil)) } catch {
      throw Self.denial(error)
    }
  }

  private static func grant(
    for caller: Principal, _ wish: Wish, _ content: [UInt8]
  ) throws(Denial) -> Principal.TokenGrant {
    try caller.mayHaveTokens()
    let parameters: TokenParameters
    let origins: [Origin]
    do throws(ErrorResponse) {
      if wish.ignoresContent {
        // Otherwise its parameters would be ignored, and the token be wider than the caller wants.
        throw ErrorResponse(.invalidParameter, "A GET request has its parameters in its query. Use POST for content.")
      }
      parameters = try TokenParameters(query: wish.query.span, body: content)
      origins = try Self.origins(parameters)
    } catch { throw Denial(error, "invalid_request") }
    return try caller.token(ttl: parameters.ttl, origins: origins)
  }

  /// What a request for a token wants.
  private struct Wish {
    private(set) var query: ArraySlice<UInt8>
    let form: TokenForm
    /// Whether the request states content (RFC 9110 §9.3.1) that is not read. Without a length, some clients send an empty
    /// one with each GET.
    let ignoresContent: Bool

    init(_ request: Request, takesContent: Bool = true) {
      (query, form) = (request.query ?? [], TokenForm(accept: request))
      ignoresContent = !takesContent && request.statesContent
    }

    /// Returns a copy in its own memory, to hold while the request waits: a slice keeps the whole head.
    func copied() -> Wish {
      var copy = self
      copy.query = Array(query)[...]
      return copy
    }
  }

  private static func origins(_ parameters: TokenParameters) throws(ErrorResponse) -> [Origin] {
    let (count, most) = (parameters.origins.count, TokenMinter.maximumOrigins)
    do {
      // This check precedes the parsing, because a body may contain tens of thousands of origins.
      guard count <= most else { throw TokenError.tooManyOrigins(count: count, maximum: most) }
      return try parameters.origins.map { try Origin($0.text) }
    } catch { throw ErrorResponse(.invalidParameter, "\(error)") }
  }

  /// Responds at once, unless a remote signer must sign the token.
  private func reply(to admitted: AccessGate.AuthorizedCaller, _ wish: Wish, _ content: [UInt8] = []) -> Reply {
    do throws(Denial) {
      let grant = try Self.grant(for: admitted.caller, wish, content)
      let answer = try minted { () throws(TokenError) in
        try minter.request(ttl: grant.ttl, origins: grant.origins, for: admitted.caller.client.id) { Glibc.time(nil) }
      }
      let form = wish.form
      switch answer {
      case .ready(let document): return .immediate(respond(to: admitted, document, form))
      case .waiting(let token): return .deferred(DeferredWork { _ in await self.respond(to: admitted, token, form) })
      }
    } catch { return .immediate(gate.refuse(error, admitted)) }
  }

  private func respond(
    to admitted: AccessGate.AuthorizedCaller, _ token: AwaitedToken, _ form: TokenForm
  ) async -> Response {
    let result = await token.get()
    // The caller has gone, and reads no response: nothing is refused.
    guard !Task.isCancelled else {
      return ErrorResponse(.internalError, "The server cancelled the request.", end: .message).response(
        id: admitted.auditContext.id)
    }
    do throws(Denial) {
      return respond(to: admitted, try minted { () throws(TokenError) in try result.get() }, form)
    } catch { return gate.refuse(error, admitted) }
  }

  private func respond(
    to admitted: AccessGate.AuthorizedCaller, _ document: TokenDocument, _ form: TokenForm
  ) -> Response {
    let token = document.token
    let refusal = gate.grant(
      admitted,
      token: AuditRecord.Token(
        keyID: minter.key.keyID.description, origins: token.origins.map(\.description), expiry: token.expiresAt,
        digest: TokenDigest(token.sha256)))
    if let refusal { return refusal }
    var response = form.response(document)
    admitted.mark(&response)
    return response
  }

  /// Returns what `mint` returns. Its errors that are not the caller's are logged.
  private func minted<Result>(_ mint: () throws(TokenError) -> Result) throws(Denial) -> Result {
    do throws(TokenError) { return try mint() } catch {
      let denial = Self.denial(error)
      if [.internalError, .noSigningKey].contains(denial.response.code) { gate.service.warn(ofFailedToken: error) }
      throw denial
    }
  }

  private static func denial(_ error: TokenError) -> Denial {
    switch error {
    case .ttlTooShort, .ttlTooLong, .tooManyOrigins: Denial(.invalidParameter, "invalid_request", "\(error)")
    case .implausibleClock, .keyIDEqualsTeamID, .signing:
      Denial(.internalError, "not_minted", "The server cannot make a token. \(error)")
    case .signer:
      // The sentence has paths of this machine and words of a program.
      Denial(
        .noSigningKey, "not_minted",
        "The signer of this server does not sign tokens at present. Send the request again in 5 s. The log has the reason.",
        retryAfter: 5, shortage: .developerToken)
    case .signerBusy:
      Denial(
        .overloaded, "signer_busy", "Too many requests wait for a signature. Send the request again in 1 s.",
        retryAfter: 1, shortage: .developerToken)
    }
  }
}

/// The parameters of a request for a token, from a query or a JSON object.
struct TokenParameters: Equatable {
  /// The lifetime in seconds; nil for the default.
  var ttl: Int?
  /// The origins for the token, as the caller wrote them.
  var origins: [ByteString] = []

  /// The maximum number of JSON values in the content: a few times the maximum number of origins.
  private static let mostValues = 256
  private static let hint = "The parameters are ttl (seconds) and origin."

  /// Parses `ttl=3600&origin=https%3A%2F%2Fapp.example.com`. `origin` may be repeated. Throws for an unknown parameter,
  /// because a misspelt `origin` would produce a token that works everywhere.
  init(query: Span<UInt8>) throws(ErrorResponse) {
    var start = 0
    while start < query.count {
      let end = query.index(of: UInt8(ascii: "&"), from: start)
      if end > start { try readPair(query.extracting(start..<end)) }
      start = end + 1
    }
  }

  /// Reads `name=value`. A name without a value has an empty value.
  private mutating func readPair(_ pair: Span<UInt8>) throws(ErrorResponse) {
    let end = pair.index(of: UInt8(ascii: "="), from: 0)
    guard let name = PercentEncoding.decode(pair.extracting(first: end)),
      let value = PercentEncoding.decode(pair.extracting(min(end + 1, pair.count)...))
    else { throw ErrorResponse(.malformedRequest, "The query has a percent sign without two hexadecimal digits.") }
    if name.elementsEqual("ttl".utf8) {
      try setTTL(value)
    } else if name.elementsEqual("origin".utf8) {
      origins.append(try Self.text(value))
    } else {
      throw Self.unknown(try Self.text(name))
    }
  }

  /// Parses the query and an optional JSON object; both may have parameters.
  init(query: Span<UInt8>, body: [UInt8]) throws(ErrorResponse) {
    try self.init(query: query)
    guard !body.isEmpty else { return }
    guard let object = JSONReader.read(body, values: Self.mostValues), object.isObject else {
      throw ErrorResponse(
        .malformedRequest,
        "The content is not a JSON object such as {\"ttl\": 3600}, or has more than \(Self.mostValues) values. \(Self.hint)"
      )
    }
    guard object.repeatedNames.isEmpty else {
      throw ErrorResponse(.invalidParameter, "The content repeats a parameter.")
    }
    for member in object.members { try set(member.name, to: member.value) }
  }

  private mutating func set(_ name: ByteString, to value: JSONValue) throws(ErrorResponse) {
    switch (name, value) {
    case ("ttl", .number(let text)):
      // 3600.0 is an integer too (JSON Schema 2020-12 §6.1.1), and languages with only one kind of number write it so.
      let whole = Double(text).flatMap { Int(exactly: $0) }
      try setTTL(Array((whole.map(String.init) ?? text).utf8))
    case ("ttl", _): throw ErrorResponse(.invalidParameter, "ttl must be a number of seconds.")
    case ("origin", .string(let origin)): origins.append(origin)
    case ("origin", .array(let list)):
      // A token without the claim works everywhere, so an empty list must not produce one.
      guard !list.isEmpty else { throw ErrorResponse(.invalidParameter, "origin is empty. Leave it out instead.") }
      for element in list {
        guard case .string(let origin) = element else { throw Self.originShape }
        origins.append(origin)
      }
    case ("origin", _): throw Self.originShape
    default: throw Self.unknown(name)
    }
  }

  private static let originShape = ErrorResponse(.invalidParameter, "origin must be a string or an array of strings.")

  private mutating func setTTL(_ digits: [UInt8]) throws(ErrorResponse) {
    guard ttl == nil else { throw ErrorResponse(.invalidParameter, "ttl occurs twice.") }
    guard (1...9).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw ErrorResponse(.invalidParameter, "ttl must be a whole number of seconds, such as 3600.")
    }
    ttl = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
  }

  private static func unknown(_ name: ByteString) -> ErrorResponse {
    // The response quotes text from the request only as a JSON string, and shortened.
    ErrorResponse(.invalidParameter, "The parameter \(Printable.quote(name, limit: 40)) is unknown. \(hint)")
  }

  private static func text(_ bytes: [UInt8]) throws(ErrorResponse) -> ByteString {
    guard (try? UTF8Span(validating: bytes.span)) != nil else {
      throw ErrorResponse(.invalidParameter, "The query is not UTF-8.")
    }
    return ByteString(bytes)
  }
}

/// The form of a response with a token that the caller prefers (RFC 9110 §12.5.1).
enum TokenForm {
  /// An object with the token and its times.
  case json
  /// Only the token, as `application/jwt`.
  case jwt
  /// Only the token, as `text/plain`.
  case text

  func response(_ document: TokenDocument) -> Response {
    switch self {
    case .json: Response(.ok, prepared: Self.jsonFields, body: document.json)
    case .jwt: Response(.ok, prepared: Self.jwtFields, body: document.token.compact)
    case .text: Response(.ok, prepared: Self.textFields, body: document.token.compact)
    }
  }

  private static let jsonFields = fields("application/json")
  private static let jwtFields = fields("application/jwt")
  private static let textFields = fields("text/plain")

  /// Returns the fields. A token is for one caller, so no cache may store it (RFC 9111 §5.2.2.5).
  private static func fields(_ type: String) -> FieldSection {
    FieldSection([
      .contentType: type, .cacheControl: "no-store", .vary: "Origin, Accept", .xContentTypeOptions: "nosniff",
    ])
  }

  /// Chooses the form that a request's `Accept` prefers: JSON if it names no other form, or has several field lines.
  init(accept request: Request) {
    guard case .single(let value) = request.field("accept"), value.count > 3 else {
      self = .json
      return
    }
    self.init(accept: value)
  }

  /// Chooses the first form with the highest weight (RFC 9110 §12.4.2), or JSON if none of the other forms is named. Reads
  /// the list in place, because every request for a token has one. Browsers' lists have a hundred bytes and half a dozen
  /// elements. A much longer list costs nothing and gets JSON.
  init(accept value: ArraySlice<UInt8>) {
    self = .json
    guard value.count <= Self.longestAccept else { return }
    let list = value.span
    var best = (form: Self.json, weight: 0)
    var start = 0
    var elements = 0
    while start < list.count {
      elements += 1
      guard elements <= Self.mostElements else { return }
      let end = list.end(of: UInt8(ascii: ","), from: start)
      let range = MediaRange(list.extracting(start..<end))
      if let form = range.form, range.weight > best.weight { best = (form, range.weight) }
      start = end + 1
    }
    self = best.form
  }

  private static let longestAccept = 1024
  private static let mostElements = 32
}

/// An element of `Accept` (RFC 9110 §12.5.1).
private struct MediaRange {
  let form: TokenForm?
  /// The weight in thousandths. A malformed weight counts as 0.
  let weight: Int

  init(_ element: Span<UInt8>) {
    var end = element.end(of: UInt8(ascii: ";"), from: 0)
    form = Self.form(element.extracting(element.trimmingWhitespace(0..<end)))
    var weight: Int?
    while form != nil, weight == nil, end < element.count {
      let start = end + 1
      end = element.end(of: UInt8(ascii: ";"), from: start)
      weight = Self.weight(element.extracting(element.trimmingWhitespace(start..<end)))
    }
    self.weight = weight ?? 1000
  }

  private static func form(_ type: Span<UInt8>) -> TokenForm? {
    func isNamed(_ name: StaticString) -> Bool { type.equalsIgnoringCase(0..<type.count, name) }
    if isNamed("application/jwt") { return .jwt }
    if isNamed("text/plain") || isNamed("text/*") { return .text }
    if isNamed("*/*") || isNamed("application/*") || isNamed("application/json") { return .json }
    return nil
  }

  /// Returns the value of `q=0.5`; nil for another parameter.
  private static func weight(_ parameter: Span<UInt8>) -> Int? {
    guard parameter.count >= 2, parameter.equalsIgnoringCase(0..<2, "q=") else { return nil }
    return parameter.qualityValue(in: 2..<parameter.count)
  }
}

extension Span<UInt8> {
  /// Returns the next index of `separator` outside of quoted strings, or the end.
  fileprivate func end(of separator: UInt8, from start: Int) -> Int {
    var index = start
    var isQuoted = false
    while index < count, isQuoted || self[index] != separator {
      if self[index] == UInt8(ascii: "\"") { isQuoted.toggle() }
      // A quoted pair (RFC 9110 §5.6.4).
      index += isQuoted && self[index] == UInt8(ascii: "\\") ? 2 : 1
    }
    return Swift.min(index, count)
  }

  /// The index of the first such byte, or the end.
  fileprivate func index(of byte: UInt8, from start: Int) -> Int { (start..<count).first { self[$0] == byte } ?? count }
}
