import EventLoop
import Testing

/// One of the variants of a server, all of which must behave alike.
struct Variant: CustomTestStringConvertible, Sendable {
  let poller: IOLoop.PollerKind
  let isTLS: Bool

  var testDescription: String { "\(isTLS ? "TLS" : "plain") over \(poller)" }

  static let plain = IOLoop.PollerKind.allCases.map { Variant(poller: $0, isTLS: false) }
  static let tls = IOLoop.PollerKind.allCases.map { Variant(poller: $0, isTLS: true) }
  static let all = plain + tls
}
