import EventLoop
import Testing

/// One of the ways that a server can run, all of which have to behave alike.
struct Variant: CustomTestStringConvertible, Sendable {
  let poller: EventLoop.PollerKind
  let isTLS: Bool

  var testDescription: String { "\(isTLS ? "TLS" : "plain") over \(poller)" }

  static let plain = EventLoop.PollerKind.allCases.map { Variant(poller: $0, isTLS: false) }
  static let tls = EventLoop.PollerKind.allCases.map { Variant(poller: $0, isTLS: true) }
  static let all = plain + tls
}
