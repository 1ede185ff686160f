import HTTP2

/// A client and a server that exchange arrays of bytes.
final class Pair {
  let client: End
  let server: End
  /// The number of bytes that arrive in one call.
  var arrival = Int.max

  init(
    client: (inout HTTP2Limits) -> Void = { _ in }, server: (inout HTTP2Limits) -> Void = { _ in }
  ) throws {
    self.client = try End(.client, client)
    self.server = try End(.server, server)
  }

  /// Passes bytes in both directions until both ends are silent.
  func run() throws {
    while true {
      let upstream = client.output()
      try pass(upstream, to: server)
      let downstream = server.output()
      try pass(downstream, to: client)
      if upstream.isEmpty, downstream.isEmpty { return }
    }
  }

  private func pass(_ bytes: [UInt8], to end: End) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      try end.receive(Array(rest.prefix(arrival)))
      rest = rest.dropFirst(arrival)
    }
  }
}
