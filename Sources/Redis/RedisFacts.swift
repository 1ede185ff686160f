import Bytes

/// What a server says of itself in its reply to HELLO, which every user may send. It comes from outside, so it may be
/// anything.
package struct RedisFacts: Sendable, Equatable {
  /// Name and version, such as `redis 7.0.15`. Nil if the server does not say.
  package let name: String?
  /// `standalone`, `cluster` or `sentinel`.
  package let mode: String?
  /// `master` or `replica`.
  package let role: String?

  /// Why a Sentinel is of no use as a store.
  static let sentinel = "It is a Sentinel, which stores nothing. Write the address of the primary into shared.url."

  init(_ reply: RESPValue) {
    func text(_ name: String) -> String? {
      guard let parts = reply.elements,
        let index = parts.indices.first(where: {
          $0.isMultiple(of: 2) && parts[$0].bytes?.elementsEqual(name.utf8) == true
        }), index + 1 < parts.count, let bytes = parts[index + 1].bytes, bytes.count <= 40,
        bytes.allSatisfy({ (0x21...0x7E).contains($0) })
      else { return nil }
      return String(decoding: bytes, as: UTF8.self)
    }
    name = text("server").map { server in text("version").map { "\(server) \($0)" } ?? server }
    (mode, role) = (text("mode"), text("role"))
  }
}
