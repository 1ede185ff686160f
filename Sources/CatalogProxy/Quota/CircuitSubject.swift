import HTTPTypes

/// What a request asks for, and for whom, as hashes that no caller can foresee: the hasher is seeded in each process.
public struct CircuitSubject: Sendable, Equatable {
  /// The client of the operator's list.
  let client: UInt64
  /// One of its callers.
  let caller: UInt64
  /// What is asked for. Two requests with the same cannot but get the same from a healthy upstream.
  let resource: UInt64

  /// A subject by its hashes.
  init(client: UInt64, caller: UInt64, resource: UInt64) {
    (self.client, self.caller, self.resource) = (client, caller, resource)
  }

  /// The subject of a call. What is stored for all is one resource for all; anything else is its caller's own, because
  /// its method, its content and its music user token may be what makes it fail.
  init(_ call: CatalogCall) {
    let client = Self.hash { $0.combine(Array(call.caller.client.utf8)) }
    let caller = Self.hash { hasher in
      hasher.combine(client)
      hasher.combine(call.caller.rateLimitPrefix)
    }
    let resource =
      call.target.isStorable
      ? call.key.fingerprint
      : Self.hash { hasher in
        hasher.combine(caller)
        hasher.combine(call.method)
        hasher.combine(call.target.bytes)
        for value in call.fields[values: .musicUserToken] { hasher.combine(Array(value.utf8)) }
      }
    self.init(client: client, caller: caller, resource: resource)
  }

  private static func hash(_ feed: (inout Hasher) -> Void) -> UInt64 {
    var hasher = Hasher()
    feed(&hasher)
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}

extension HTTPField.Name {
  // It is a token, so there is such a name; what follows `??` is never reached.

  /// The caller's music user token.
  static let musicUserToken = HTTPField.Name("Music-User-Token") ?? .authorization
}
