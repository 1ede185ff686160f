import COpenSSL
import Locks

/// The earliest expiry time in the chain of a server's certificate that the last full handshake verified.
final class ServerChainEnd: Sendable {
  private let end = Locked<Int?>(nil)

  var notAfter: Int? { end.withLock { $0 } }

  /// Records the chain of an established session. A resumed session has none.
  func note(_ ssl: OpaquePointer) {
    guard let chain = unsafe SSL_get0_verified_chain(ssl) else { return }
    var earliest: Int?
    for place in 0..<(unsafe OPENSSL_sk_num(chain)) {
      guard let certificate = unsafe OPENSSL_sk_value(chain, place),
        let notAfter = unsafe Certificate.notAfter(OpaquePointer(certificate))
      else { continue }
      earliest = min(notAfter, earliest ?? notAfter)
    }
    if let earliest { end.withLock { $0 = earliest } }
  }
}
