import Access
import Bytes
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import TLS

extension PresentedCredentials {
  /// Reads the credential and the origin of a request, without a certificate if the policy knows none, and without a
  /// developer token of this server beside another credential. Without clients, there is no credential.
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
  fileprivate init?(_ request: Request, _ certificate: Self?, _ isOwnToken: (ArraySlice<UInt8>) -> Bool) {
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
      let names = fields.compactMap(\.self).joined(separator: " and ")
      self = .malformed("The request has several credentials, \(names). Send one.")
    }
  }

  /// Reads the names of a certificate that the server verified when the connection began.
  init(_ certificate: ClientCertificate, authorities: [UInt8]?) {
    let isValid = certificate.holds(now: Glibc.time(nil), authorities: authorities)
    self = isValid ? .certificate(certificate.subjectNames) : .outdatedCertificate
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

  /// Parses `Authorization`: the scheme in any case, spaces, and the token (RFC 9110 §11.4, RFC 6750 §2.1).
  private static func authorization(_ value: ArraySlice<UInt8>) -> Self {
    let span = value.span
    guard span.count >= 6, span.equalsIgnoringCase(0..<6, "bearer"), span.count == 6 || span[6] == UInt8(ascii: " ")
    else { return .malformed("Authorization has a scheme other than Bearer. Send Authorization: Bearer KEY.") }
    let token = value.dropFirst(6).drop { $0 == UInt8(ascii: " ") }
    return token.isEmpty ? .malformed("Authorization: Bearer has no credential after it.") : .bearer(token)
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
      // A browser sends the serialised form. The server does not normalise any other, which is from no browser.
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
