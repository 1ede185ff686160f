import Access
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import TLS

extension PresentedCredentials {
  /// Reads the credential and the origin of a request. A credential of a kind that the policy does not use is left out.
  ///
  /// - Parameter isOwnToken: Whether a bearer token is a developer token of this server, which counts as no credential.
  ///   Called only for a token beside another credential.
  init(
    _ request: Request, to policy: AccessPolicy, authorities: [UInt8]?,
    isOwnToken: (ArraySlice<UInt8>) -> Bool = { _ in false }
  ) {
    self.init(
      request, to: policy, certificate: request.clientCertificate.map { .init($0, authorities: authorities) },
      isOwnToken: isOwnToken)
  }

  /// Does the same with the credential of a TLS client certificate, which is nil without a certificate.
  init(
    _ request: Request, to policy: AccessPolicy, certificate: @autoclosure () -> Credential?,
    isOwnToken: (ArraySlice<UInt8>) -> Bool = { _ in false }
  ) {
    self.init(
      credential: policy.clients.isEmpty
        ? nil : Credential(request, policy.knowsCertificates ? certificate() : nil, isOwnToken),
      origin: RequestOrigin(request, known: policy))
  }
}

extension PresentedCredentials.Credential {
  /// Reads the only credential of a request. Returns nil if the request has none.
  fileprivate init?(
    _ request: Request, _ certificate: PresentedCredentials.Credential?, _ isOwnToken: (ArraySlice<UInt8>) -> Bool
  ) {
    var authorization = Self.read(request.field("authorization"), "Authorization", Self.authorization)
    let apiKey = Self.read(request.field("x-api-key"), "X-API-Key") { .apiKey($0) }
    if case .bearer(let token)? = authorization, apiKey != nil || certificate != nil, isOwnToken(token) {
      authorization = nil
    }
    switch (authorization, apiKey, certificate) {
    case (nil, nil, nil): return nil
    case (let credential?, nil, nil), (nil, let credential?, nil), (nil, nil, let credential?): self = credential
    default:
      let fields = [
        authorization.map { _ in "Authorization" }, apiKey.map { _ in "X-API-Key" },
        certificate.map { _ in "a TLS client certificate" },
      ]
      let names = fields.compactMap { $0 }.joined(separator: " and ")
      self = .malformed("The request has several credentials, \(names). Send one.")
    }
  }

  /// Reads the names of a certificate that the server verified when the connection began.
  fileprivate init(_ certificate: ClientCertificate, authorities: [UInt8]?) {
    let holds = certificate.holds(now: Glibc.time(nil), authorities: authorities)
    self = holds ? .certificate(certificate.subjectNames) : .outdatedCertificate
  }

  @inline(__always)
  private static func read(
    _ field: FieldOccurrence<ArraySlice<UInt8>>, _ name: StaticString, _ parse: (ArraySlice<UInt8>) -> Self
  ) -> Self? {
    switch field {
    case .absent: nil
    case .repeated: .malformed("The request has \(name) twice. Send one credential.")
    case .single(let value): parse(value)
    }
  }

  /// Parses `Authorization`: the scheme, in any case of letters, one or more spaces, and the token (RFC 9110 §11.4, RFC
  /// 6750 §2.1).
  private static func authorization(_ value: ArraySlice<UInt8>) -> PresentedCredentials.Credential {
    guard isBearer(value) else {
      return .malformed("Authorization has a scheme other than Bearer. Send Authorization: Bearer KEY.")
    }
    let token = value.dropFirst(6).drop { $0 == UInt8(ascii: " ") }
    guard !token.isEmpty else { return .malformed("Authorization: Bearer has no credential after it.") }
    return .bearer(token)
  }

  /// Returns whether the scheme is Bearer. Every request with a key runs this, hence a plain loop.
  private static func isBearer(_ value: ArraySlice<UInt8>) -> Bool {
    let scheme: StaticString = "bearer"
    let span = value.span
    guard span.count == scheme.utf8CodeUnitCount || (span.count > 6 && span[6] == UInt8(ascii: " ")) else {
      return false
    }
    for index in 0..<scheme.utf8CodeUnitCount {
      // Safe: a static string lives forever, and the index is below its length.
      guard unsafe span[index] | 0x20 == scheme.utf8Start[index] else { return false }
    }
    return true
  }
}

extension PresentedCredentials.RequestOrigin {
  /// Parses the `Origin` field of a request (RFC 6454 §7).
  init(_ request: Request, known policy: AccessPolicy) {
    switch request.field("origin") {
    case .absent: self = .absent
    case .repeated: self = .unusable("A repeated Origin")
    case .single(let value) where value.count > Origin.limit:
      self = .unusable("An origin of more than \(Origin.limit) bytes")
    case .single(let value) where !value.allSatisfy({ $0 < 0x80 }):
      self = .unusable("An origin with bytes beyond ASCII")
    case .single(let value):
      let text = String(decoding: value, as: UTF8.self)
      // A browser sends the serialised form. Any other form is not from a browser, and the server does not normalise
      // it.
      if let origin = policy.writtenOrigin(text) {
        self = .present(origin)
      } else if let origin = try? Origin(text), origin.description == text {
        self = .present(origin)
      } else {
        self = .unusable(String(decoding: value.prefix(120), as: UTF8.self))
      }
    }
  }
}

extension ClientCertificate {
  fileprivate var subjectNames: [SubjectName] {
    uris.map(SubjectName.uri) + dnsNames.map { .dns($0.lowercased()) } + emailAddresses.map(SubjectName.email)
  }
}
