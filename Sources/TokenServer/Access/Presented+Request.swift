import Access
import DeveloperToken
import HTTPServer
import TLS

extension Presented {
  /// What a request presents.
  ///
  /// - Parameter knowsCredentials: Whether anything but the origin means anything here.
  init(_ request: Request, knowsCredentials: Bool) {
    self.init(
      credential: knowsCredentials ? Credential(request) : nil, origin: RequestOrigin(request))
  }
}

extension Presented.Credential {
  /// The one credential of a request; nil if there is none.
  fileprivate init?(_ request: Request) {
    var found: [Presented.Credential] = []
    switch request.field("authorization") {
    case .absent: break
    case .repeated: found.append(.malformed("Authorization is sent twice; send one credential."))
    case .single(let value): found.append(Self.authorization(value))
    }
    switch request.field("x-api-key") {
    case .absent: break
    case .repeated: found.append(.malformed("X-API-Key is sent twice; send one credential."))
    case .single(let value): found.append(.apiKey(Array(value)))
    }
    if let certificate = request.clientCertificate { found.append(.certificate(certificate.subjectNames)) }
    switch found.count {
    case 0: return nil
    case 1: self = found[0]
    default:
      self = .malformed(
        "The request has several credentials, of Authorization, X-API-Key and a TLS client certificate; send one.")
    }
  }

  /// The credentials of `Authorization`: the scheme, in any case of letters, one or more spaces, and the token (RFC 9110
  /// §11.4, RFC 6750 §2.1).
  private static func authorization(_ value: ArraySlice<UInt8>) -> Presented.Credential {
    let scheme = value.prefix { $0 != UInt8(ascii: " ") }
    let isBearer =
      scheme.count == 6 && zip(scheme, "bearer".utf8).allSatisfy { $0 | 0x20 == $1 }
    guard isBearer else {
      return .malformed("Authorization has a scheme other than Bearer; send Authorization: Bearer KEY.")
    }
    let token = value.dropFirst(6).drop { $0 == UInt8(ascii: " ") }
    guard !token.isEmpty else { return .malformed("Authorization: Bearer has nothing behind it.") }
    return .bearer(Array(token))
  }
}

extension Presented.RequestOrigin {
  /// The `Origin` field of a request (RFC 6454 §7).
  init(_ request: Request) {
    switch request.field("origin") {
    case .absent:
      self = .absent
    case .repeated:
      self = .unusable("An origin sent twice")
    case .single(let value):
      let text = String(decoding: value, as: UTF8.self)
      // A browser sends it serialised. What differs from that is not from a browser, and not to be guessed at.
      if let origin = try? Origin(text), origin.description == text {
        self = .present(origin)
      } else {
        self = .unusable(String(text.prefix(120)))
      }
    }
  }
}

extension ClientCertificate {
  /// The names that clients can be known by.
  fileprivate var subjectNames: [SubjectName] {
    uris.map(SubjectName.uri) + dnsNames.map { .dns($0.lowercased()) } + emailAddresses.map(SubjectName.email)
  }
}
