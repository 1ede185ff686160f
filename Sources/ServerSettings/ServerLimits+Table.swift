import HTTP1
import HTTPServer

/// Each sentence gives the reason for the limit and for the default.
extension ServerLimits: SettingsSection {
  static let place = SectionPlace(\.server.limits)

  static let rows: [SectionRow<Self>] = [
    row(
      "server.limits.memory", .size(8 << 20...1 << 40), \.memory,
      "The memory that the server may use for peers and the upstream, without the cache. Default: half of the "
        + "cgroup's limit, if there is one. Beyond it the newest and largest users of memory get 503."),
    row(
      "server.limits.connections", .integer(1...1_000_000), \.connections,
      "Open connections in all: each holds a descriptor and some memory. Default: less if the system's "
        + "descriptor limit is."),
    row(
      "server.limits.connectionsPerAddress", .integer(1...1_000_000), \.connectionsPerAddress,
      "Open connections from one address: one client must not take every connection, but a NAT or an ingress "
        + "rightly has thousands."),
    row(
      "server.limits.tlsHandshake", .duration(seconds: 1...300), \.tlsHandshake,
      "From accepting a connection to the end of its TLS handshake, which takes two round trips. A client that "
        + "takes longer holds a TLS session for nothing, and gets an alert."),
    row(
      "server.limits.headerSection", .duration(seconds: 1...300), \.headerSection,
      "From a request's first byte to the end of its header section: for the whole section, so that sending byte "
        + "by byte (Slowloris) does not help."),
    row(
      "server.limits.bodyProgress", .duration(seconds: 1...3600), \.bodyProgress,
      "Between two bytes of a body, which may be slow but not stuck."),
    row(
      "server.limits.body", .duration(seconds: 1...3600), \.body,
      "For a whole body: a byte now and then is progress, but not for ever."),
    row(
      "server.limits.writeProgress", .duration(seconds: 1...3600), \.writeProgress,
      "Between two bytes that the client takes of a response: a client that never reads must not hold it for ever."),
    row(
      "server.limits.idle", .duration(seconds: 1...86_400), \.idle,
      "Between a response and the next request: longer than the 60 s for which common load balancers keep a "
        + "connection, so that they close first."),
    row(
      "server.limits.burst", .duration(seconds: 1...3600), \.burst,
      "How long expensive work, a TLS handshake or a request to Apple, may be late without a pause. Then there is more "
        + "than the server can do, and it refuses what has waited for 150 ms; so the rest is in time."),
    row(
      "server.limits.requestLine", .size(256...65_536), \.http1.requestLine,
      "The request line; 414 if it is longer. RFC 9112 §3 asks for 8000 bytes at least."),
    row(
      "server.limits.headerBytes", .size(1024...1_048_576), \.http1.headerSection,
      "The header section, which the server holds until the request is complete; 431 if it is longer."),
    row(
      "server.limits.fieldLines", .integer(8...1000), \.http1.fieldLines,
      "The field lines of the header section, each of which costs work beyond its bytes; 431 if there are more."),
    row(
      "server.limits.bodyBytes", .size(256...1_048_576), \.bodyBytes,
      "The content of a request for a token; 413 if it is longer. It is a small JSON object. Apple limits others."),
    row(
      "server.limits.unreadBody", .size(0...1_048_576), \.unreadBody,
      "How much of unread content the server reads to keep the connection: reading a little is cheaper than a "
        + "new connection, reading a lot is not."),
    row(
      "server.limits.chunkExtensions", .size(0...65_536), \.http1.chunkExtensions,
      "The chunk extensions of one body. No client needs them, and without a limit they are bytes that cost the "
        + "sender nothing (CVE-2023-39326)."),
  ]

  /// Reads every row. A row with an error keeps its default. There are descriptors for `most` connections.
  init(_ reader: inout SettingsReader, host: HostFacts, most: Int) {
    self.init()
    connections = min(connections, most)
    if let memory = host.memory { self.memory = memory / 2 }
    read(&reader)
    if connections > most {
      reader.reject(
        "server.limits.connections", problem: "\(connections) is more than this process may open",
        remedy: "write \(most) at most, or \(DescriptorBudget.remedy)")
    }
  }
}
