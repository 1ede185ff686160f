import HTTP2

/// A client and a server, with nothing but arrays between them.
final class Pair {
  let client: End
  let server: End
  /// How many bytes arrive at once.
  var arrival = Int.max

  init(
    client: (inout HTTP2Limits) -> Void = { _ in }, server: (inout HTTP2Limits) -> Void = { _ in }
  ) throws {
    self.client = try End(.client, client)
    self.server = try End(.server, server)
  }

  /// Lets bytes go to and fro until both are silent.
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
