import Bytes
package import EventLoop
package import HTTP1
package import HTTPServer
import TLS

extension Settings {
  /// The public listener and its connections. The settings below describe the properties that have their names.
  package struct Server: Sendable {
    package enum Address: Sendable, Equatable {
      /// TCP. Port 0 selects a free one.
      case tcp(ListenHost, port: UInt16)
      case unix(String)
      /// Sockets that the service manager has opened, instead of the address in the settings.
      case passed([PassedSocket])

      /// Whether TCP reaches the address, or one of several. Browsers reach no Unix-domain socket.
      var isTCP: Bool {
        switch self {
        case .tcp: true
        case .unix: false
        case .passed(let sockets): sockets.contains { $0.address.ipAddress != nil }
        }
      }

      var places: [SocketPlace] {
        switch self {
        case .tcp(let host, let port): SocketPlace.all(of: host, port: port)
        case .unix: []
        case .passed(let sockets): SocketPlace.all(of: sockets)
        }
      }
    }

    package struct TLSFiles: Sendable, Equatable {
      /// Nil if it is invalid, like those below.
      package var certificateFile: String?
      package var keyFile: String?
      package var certificates: [CertificateFiles] = []
      package var clientCAFile: String?
      /// The first for new tickets. Empty if the server makes its own keys.
      package var ticketKeyFiles: [String] = []
      /// Nil to send no such field (RFC 6797).
      package var hsts: Duration?
      package var http2 = true
    }

    package struct CertificateFiles: Sendable, Equatable {
      package var certificateFile: String?
      package var keyFile: String?
    }

    package var address = Address.tcp(.address("127.0.0.1"), port: 8080)
    /// Whether the port is that of the variable `PORT`, which platforms set.
    package var isPortOfPlatform = false
    package var reusePort = false
    package var landlock = true
    /// The files for HTTPS. Nil for plain HTTP.
    package var tls: TLSFiles?
    package var trustedProxies: [AddressRange] = []
    package var forwarded = ForwardedHops.Field.forwardedFor
    package var proxyProtocol = false
    package var hosts: [String] = []
    package var page = false
    package var module = false
    package var limits = ServerLimits()
    package var drainDelay = Duration.zero
    package var drainTimeout = Duration.seconds(30)
    package var loops = 1
    package var poller = IOLoop.PollerKind.epoll
    package var descriptors = DescriptorBudget(openFiles: 0, loops: 1)
  }
}

extension Settings.Server: SettingsSection {
  static let place = SectionPlace(\.server)

  static let host = Setting(
    "server.host", .listenHost, default: .address("127.0.0.1"), fixed: place.fixed(\.address),
    "An IP address, `localhost`, or `*` for every address of IPv6 and IPv4.")
  static let port = Setting(
    "server.port", .port, default: 8080, fixed: place.fixed(\.address),
    "0 picks a free port. Without this setting, the variable [`PORT`](run.md#platforms-that-choose-the-port) counts.")
  static let unixSocket = Setting(
    "server.unixSocket", .socketPath, example: #""/run/musickit-token-server/http.sock""#,
    fixed: place.fixed(\.address),
    "A Unix-domain socket instead of host and port. The variables `SERVER_HOST` and `PORT` are ignored beside it.")

  static let rows: [SectionRow<Self>] =
    [
      .own(host), .own(port), .own(unixSocket),
      row(
        "server.reusePort", .bool, \.reusePort,
        "Whether a [successor](run.md#restart) may listen on the same TCP addresses, admin listener included, while "
          + "this server runs. Both need it, and the same user."),
    ] + TLSFiles.known.map { .own($0) } + [
      row(
        "server.trustedProxies",
        .list(of: .addressRange, remedy: "write a list such as [\"10.0.0.0/8\", \"2001:db8::/32\"]"), \.trustedProxies,
        "Addresses or CIDR ranges whose field of `server.forwarded` and `X-Request-ID` count, and which are "
          + "exempt from the limit per address; see [behind a proxy](tls-and-proxies.md#behind-a-proxy)."),
      row(
        "server.forwarded", .word, \.forwarded,
        "The field with which trusted proxies name the client. A request with the other one, alone or with another "
          + "client, counts for one unknown caller."),
      row(
        "server.proxyProtocol", .bool, \.proxyProtocol,
        "Whether trusted proxies begin each connection with a PROXY header, version 1 or 2; a connection without one "
          + "closes. Needs `server.trustedProxies`; never on the admin listener."),
      row(
        "server.hosts", .hostNames, \.hosts, example: #"["tokens.example.com"]"#, isLive: true,
        "The host names that requests may name, beside IP addresses, names without a dot and private names; others get "
          + "421. Default: any name, and no other name on a listener that serves callers without credentials; see [host "
          + "names](tls-and-proxies.md#host-names)."),
      row(
        "server.page", .bool, \.page,
        "Whether the public listener serves [the page](page.md). Its callers need the same credentials there as elsewhere."
      ),
      row(
        "server.module", .bool, \.module,
        "Whether the public listener serves `musickit-token.js`, [the module for web apps](clients.md#the-module), "
          + "without the page. With `server.page` it does in any case."),
      row(
        "server.drain.delay", .duration(seconds: 0...3600), \.drainDelay,
        "How long after `SIGTERM` the server still serves everything while `/readyz` has 503, for load balancers to "
          + "notice."),
      row(
        "server.drain.timeout", .duration(seconds: 0...3600), \.drainTimeout,
        "How long requests may take after the delay."),
      row(
        "server.loops", .integer(1...256), \.loops, example: "2",
        "Event loops, a thread each. Default: as many as the cores that affinity and cgroup quota allow."),
      row(
        "server.poller", .word, \.poller, "How event loops wait. Use `poll` to exclude epoll as the cause of a fault."),
      row(
        "server.landlock", .bool, \.landlock,
        "Whether the server gives up, after its start, all [files that it does not need](run.md#files), where the "
          + "kernel offers Landlock (Linux 5.13)."),
    ] + ServerLimits.known.map { .own($0) }

  init?(_ reader: inout SettingsReader, host: HostFacts) {
    self.init()
    let mostLoops = DescriptorBudget.mostLoops(openFiles: host.openFiles)
    loops = min(host.cores, 256, max(1, mostLoops))
    let written = Self.readAddress(&reader)
    let isValid = read(&reader)
    tls = Self.readTLS(&reader)
    descriptors = DescriptorBudget(openFiles: host.openFiles, loops: loops)
    limits = ServerLimits(&reader, host: host, most: max(1, descriptors.connections))
    check(&reader, mostLoops: mostLoops, openFiles: host.openFiles)
    isPortOfPlatform = reader.source(of: Self.port.path) == .environment(SettingsLayers.platformPort)
    guard let address = host.sockets.public.isEmpty ? written : .passed(host.sockets.public), isValid else {
      return nil
    }
    self.address = address
  }

  private func check(_ reader: inout SettingsReader, mostLoops: Int, openFiles: Int) {
    // Each process has a Unix-domain socket of its own.
    if reusePort, reader.isSet(Self.unixSocket.path) {
      reader.reject(
        "server.reusePort", "is true, and server.unixSocket is set",
        remedy: "leave it out, and let the service manager pass the socket")
    }
    if proxyProtocol, trustedProxies.isEmpty, !reader.isInvalid("server.trustedProxies") {
      reader.reject(
        "server.proxyProtocol", "is true, and server.trustedProxies is empty",
        remedy: "write the addresses of the proxies there: the server reads PROXY headers from these only")
    }
    if loops > mostLoops {
      let needed = "\(loops == 1 ? "loop needs" : "loops need") \(DescriptorBudget.least(loops: loops)) descriptors"
      reader.reject(
        "server.loops", "\(loops) \(needed) at least, and the server has \(openFiles)",
        remedy: (mostLoops > 0 ? "write \(mostLoops) at most, or " : "") + DescriptorBudget.remedy)
    }
  }

  private static func readAddress(_ reader: inout SettingsReader) -> Address? {
    guard reader.isSet(unixSocket.path) else {
      let host = reader.read(host)
      let port = reader.read(port)
      guard let host, let port else { return nil }
      return .tcp(host, port: port)
    }
    // The variable may come from an image, whose user cannot unset it.
    let isFromVariable = reader.source(of: host.path) == .environment(host.variable)
    for path in [isFromVariable ? nil : host.path, port.path].compactMap({ $0 }) where reader.isSet(path) {
      reader.reject(path, "is set, and so is server.unixSocket", remedy: "keep one of the two")
    }
    return reader.read(unixSocket).map(Address.unix)
  }

  static func readTLS(_ reader: inout SettingsReader) -> TLSFiles? {
    let files = TLSFiles(&reader)
    let (certificate, key) = ("server.tls.certificateFile", "server.tls.keyFile")
    for (present, absent) in [(certificate, key), (key, certificate)]
    where reader.isSet(present) && !reader.isSet(absent) {
      reader.missing(absent, remedy: "HTTPS needs it together with \(present): write a PEM file's path")
    }
    guard !reader.isSet(certificate), !reader.isSet(key) else { return files }
    files.rejectAll(&reader)
    return nil
  }
}

extension Settings.Server.TLSFiles: SettingsSection {
  static let place = SectionPlace(\.server.tls)

  /// At most 100, because each costs a file and a key in memory.
  static let certificates = Setting(
    "server.tls.certificates",
    .elements(
      of: .object(of: Settings.Server.CertificateFiles.known, remedy: "write an object"), atMost: 100,
      remedy: "write a list of objects such as [{ certificateFile: \"/path/other.crt\", keyFile: \"/path/other.key\" }]"
    ),
    example: #"[{ certificateFile: "/etc/tls/other.crt", keyFile: "/etc/tls/other.key" }]"#,
    "Further certificates for clients that request one of their [names](tls-and-proxies.md#tls), as objects of "
      + "`certificateFile` and `keyFile`.")

  static let rows: [SectionRow<Self>] = [
    row(
      "server.tls.certificateFile", .path, \.certificateFile, example: #""/etc/musickit-token-server/tls.crt""#,
      fixed: .presence(of: \.server.tls), "PEM, the leaf first and then its chain. Certificate and key turn on HTTPS."),
    row(
      "server.tls.keyFile", .path, \.keyFile, example: #""/etc/musickit-token-server/tls.key""#,
      fixed: .presence(of: \.server.tls), "PEM, not encrypted."),
    .own(certificates),
    row(
      "server.tls.clientCAFile", .path, \.clientCAFile, example: #""/etc/musickit-token-server/client-ca.pem""#,
      isLive: true,
      "PEM, the CAs that the server trusts for client certificates. The server requests a certificate, and a "
        + "client may send none. A certificate that does not verify ends the handshake."),
    row(
      "server.tls.ticketKeyFiles",
      .list(
        of: .path, atMost: TicketKeys.mostFiles, remedy: "write a list such as [\"/path/ticket.key\"]",
        ifEmpty: "leave it out, and the server makes its own keys"),
      \.ticketKeyFiles, example: #"["/etc/musickit-token-server/ticket.key"]"#, isLive: true,
      "Files of 80 random bytes, \(TicketKeys.mostFiles) at most, so that TLS sessions resume on every replica with the "
        + "same files. The first encrypts new [tickets](tls-and-proxies.md#ticket-keys), all decrypt. Default: keys of the "
        + "process, a new one each day."),
    row(
      "server.tls.hsts", .duration(seconds: 0...63_072_000), \.hsts, example: #""1h""#, isLive: true,
      "Responses over TLS, errors included, have `Strict-Transport-Security: max-age=…`, and browsers then use "
        + "only HTTPS for that time. Begin with a short time: only browsers that return see a change. `0s` revokes it."),
    row(
      "server.http2", .bool, \.http2, isLive: true,
      "Whether clients may choose HTTP/2 by ALPN. It needs TLS: without, all requests are HTTP/1.1."),
  ]

  fileprivate init(_ reader: inout SettingsReader) {
    self.init()
    read(&reader)
    let further = reader.readObjects(Self.certificates) { Settings.Server.CertificateFiles(&$0) } ?? []
    // An invalid element keeps its place, which errors of the files name.
    certificates = further.map { $0 ?? .init() }
  }

  /// Rejects what has no effect without a certificate.
  fileprivate func rejectAll(_ reader: inout SettingsReader) {
    let files = "write server.tls.certificateFile and .keyFile"
    let proxy = "leave it out, or have the proxy that speaks HTTPS"
    let remedies = [
      ("clientCAFile", "\(files): without TLS no client can send a certificate"),
      ("certificates", "\(files): clients that request no known name get that certificate"),
      ("ticketKeyFiles", "\(files): without TLS there are no session tickets"),
      ("hsts", "\(proxy) send Strict-Transport-Security"),
    ]
    for (name, remedy) in remedies where reader.isSet("server.tls.\(name)") {
      reader.reject("server.tls.\(name)", "is set, and server.tls.certificateFile is not", remedy: remedy)
    }
    if http2, reader.isSet("server.http2"), !reader.isInvalid("server.http2") {
      reader.reject(
        "server.http2", "is true, and server.tls.certificateFile is not set", remedy: "\(proxy) offer HTTP/2")
    }
  }
}

extension Settings.Server.CertificateFiles {
  static let certificateFile = Setting(
    "certificateFile", .path, example: #""/etc/musickit-token-server/other.crt""#,
    "PEM, the leaf first and then its chain.")
  static let keyFile = Setting(
    "keyFile", .path, example: #""/etc/musickit-token-server/other.key""#, "PEM, not encrypted.")

  static let known: [any SettingRow] = [certificateFile, keyFile]

  init(_ reader: inout SettingsReader) {
    for row in [Self.certificateFile, Self.keyFile] { reader.require(row.path, remedy: "write a PEM file's path") }
    self.init(certificateFile: reader.read(Self.certificateFile), keyFile: reader.read(Self.keyFile))
  }
}

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
        "server.limits.connections", "\(connections) is more than this process may open",
        remedy: "write \(most) at most, or \(DescriptorBudget.remedy)")
    }
  }
}

extension SettingType where Value == AddressRange {
  static let addressRange = text(
    "a range of addresses",
    remedy: "write an address or a CIDR range such as \"10.0.0.0/8\", without bits beyond its prefix",
    make: { AddressRange($0) })
}

extension SettingType where Value == String {
  /// A DNS name as in `Host`, without a port. RFC 1035 §2.3.4 limits its length and the length of its labels.
  fileprivate static let hostName = text(
    "the name of a host", remedy: "write a name such as \"tokens.example.com\", without scheme, port and star"
  ) { text in
    let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    let isName = labels.allSatisfy { (1...63).contains($0.count) && $0.allSatisfy(\.isOfName) }
    return isName && text.utf8.count <= 253 ? text.lowercased() : nil
  }
}

extension SettingType where Value == [String] {
  /// Host names, at least one. An empty list would be ambiguous: it could mean no name or any name.
  static let hostNames = list(
    of: .hostName,
    remedy:
      "write a list such as [\"tokens.example.com\"]; the server always serves IP addresses and names without a dot",
    ifEmpty: "name some, or leave it out")
}
