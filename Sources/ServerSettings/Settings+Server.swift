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
      /// A Unix-domain socket with this path.
      case unix(String)
      /// Sockets that the service manager has opened, instead of the address in the settings.
      case passed([PassedSocket])
    }

    /// The PEM files of a TLS server, and related settings.
    package struct TLSFiles: Sendable, Equatable {
      /// Nil if it is invalid, like those below.
      package var certificateFile: String?
      package var keyFile: String?
      package var certificates: [CertificateFiles] = []
      /// Nil if the server requests no client certificates.
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

    package var address: Address
    /// Whether the port is that of the variable `PORT`, which platforms set.
    package var isPortOfPlatform = false
    package var reusePort = false
    package var landlock = true
    /// The files for HTTPS. Nil for plain HTTP.
    package var tls: TLSFiles?
    package var trustedProxies: [AddressRange]
    package var forwarded = ForwardedHops.Field.forwardedFor
    package var proxyProtocol: Bool
    /// See ``Settings/publicHosts``.
    package var hosts: [String] = []
    package var page = false
    package var module = false
    package var limits: ServerLimits
    package var drainDelay: Duration
    package var drainTimeout: Duration
    package var loops: Int
    package var poller: IOLoop.PollerKind
    /// The distribution of the process's descriptors.
    package var descriptors: DescriptorBudget
  }
}

extension Settings.Server {
  static let host = Setting(
    "server.host", .listenHost, default: .address("127.0.0.1"), fixed: .of(\.server.address),
    "An IP address, `localhost`, or `*` for every address of IPv6 and IPv4.")
  static let port = Setting(
    "server.port", .integer(0...65_535), default: 8080, fixed: .of(\.server.address),
    "0 picks a free port. Without this setting, the variable [`PORT`](run.md#platforms-that-choose-the-port) "
      + "counts.")
  static let unixSocket = Setting(
    "server.unixSocket", .socketPath, example: #""/run/musickit-token-server/http.sock""#, fixed: .of(\.server.address),
    "A Unix-domain socket instead of host and port. The variables `SERVER_HOST` and `PORT` are ignored beside it.")
  static let reusePort = Setting(
    "server.reusePort", .bool, default: false, fixed: .of(\.server.reusePort),
    "Whether a [successor](run.md#restart) may listen on the same TCP addresses, admin listener included, while "
      + "this server runs. Both need it, and the same user.")
  static let landlock = Setting(
    "server.landlock", .bool, default: true, fixed: .of(\.server.landlock),
    "Whether the server gives up, after its start, all [files that it does not need](run.md#files), where the "
      + "kernel offers Landlock (Linux 5.13).")
  static let certificateFile = Setting(
    "server.tls.certificateFile", .path, example: #""/etc/musickit-token-server/tls.crt""#,
    fixed: .presence(of: \.server.tls),
    "PEM, the leaf first and then its chain. Certificate and key turn on HTTPS.")
  static let keyFile = Setting(
    "server.tls.keyFile", .path, example: #""/etc/musickit-token-server/tls.key""#, fixed: .presence(of: \.server.tls),
    "PEM, not encrypted.")
  /// At most 100, because each costs a file and a key in memory.
  static let certificates = Setting(
    "server.tls.certificates",
    .elements(
      of: .object(of: CertificateFiles.known, remedy: "write an object"), atMost: 100,
      remedy: "write a list of objects such as [{ certificateFile: \"/path/other.crt\", keyFile: \"/path/other.key\" }]"
    ),
    example: #"[{ certificateFile: "/etc/tls/other.crt", keyFile: "/etc/tls/other.key" }]"#,
    "Further certificates for clients that request one of their [names](tls-and-proxies.md#tls), as objects of "
      + "`certificateFile` and `keyFile`.")
  static let clientCAFile = Setting(
    "server.tls.clientCAFile", .path, example: #""/etc/musickit-token-server/client-ca.pem""#,
    "PEM, the CAs that the server trusts for client certificates. The server requests a certificate, and a "
      + "client may send none. A certificate that does not verify ends the handshake.")
  static let ticketKeyFiles = Setting(
    "server.tls.ticketKeyFiles",
    .list(
      of: .path, atMost: TicketKeys.mostFiles, remedy: "write a list such as [\"/path/ticket.key\"]",
      ifEmpty: "leave it out, and the server makes its own keys"),
    example: #"["/etc/musickit-token-server/ticket.key"]"#,
    "Files of 80 random bytes, \(TicketKeys.mostFiles) at most, so that TLS sessions resume on every replica with the "
      + "same files. The first encrypts new [tickets](tls-and-proxies.md#ticket-keys), all decrypt. Default: keys of the "
      + "process, a new one each day.")
  static let hsts = Setting(
    "server.tls.hsts", .duration(seconds: 0...63_072_000), example: #""1h""#,
    "Responses over TLS, errors included, have `Strict-Transport-Security: max-age=…`, and browsers then use "
      + "only HTTPS for that time. Begin with a short time: only browsers that return see a change. `0s` revokes it.")
  static let http2 = Setting(
    "server.http2", .bool, default: true,
    "Whether clients may choose HTTP/2 by ALPN. It needs TLS: without, all requests are HTTP/1.1.")
  static let trustedProxies = Setting(
    "server.trustedProxies",
    .list(of: .addressRange, remedy: "write a list such as [\"10.0.0.0/8\", \"2001:db8::/32\"]"), default: [],
    fixed: .of(\.server.trustedProxies),
    "Addresses or CIDR ranges whose field of `server.forwarded` and `X-Request-ID` count, and which are "
      + "exempt from the limit per address; see [behind a proxy](tls-and-proxies.md#behind-a-proxy).")
  static let forwarded = Setting<ForwardedHops.Field>(
    "server.forwarded", .word, default: .forwardedFor, fixed: .of(\.server.forwarded),
    "The field with which trusted proxies name the client. A request with the other one, alone or with another client, "
      + "counts for one unknown caller.")
  static let proxyProtocol = Setting(
    "server.proxyProtocol", .bool, default: false, fixed: .of(\.server.proxyProtocol),
    "Whether trusted proxies begin each connection with a PROXY header, version 1 or 2; a connection without one "
      + "closes. Needs `server.trustedProxies`; never on the admin listener.")
  static let hosts = Setting<[String]>(
    "server.hosts", .hostNames, example: #"["tokens.example.com"]"#,
    "The host names that requests may name, beside IP addresses, names without a dot and private names; others get "
      + "421. Default: any name, and no other name on a listener that serves callers without credentials; see [host "
      + "names](tls-and-proxies.md#host-names).")
  static let page = Setting(
    "server.page", .bool, default: false, fixed: .of(\.server.page),
    "Whether the public listener serves [the page](page.md). Its callers need the same credentials there as elsewhere.")
  static let module = Setting(
    "server.module", .bool, default: false, fixed: .of(\.server.module),
    "Whether the public listener serves `musickit-token.js`, [the module for web apps](clients.md#the-module), without "
      + "the page. With `server.page` it does in any case.")
  static let drainDelay = Setting(
    "server.drain.delay", .duration(seconds: 0...3600), default: .zero, fixed: .of(\.server.drainDelay),
    "How long after `SIGTERM` the server still serves everything while `/readyz` has 503, for load balancers to "
      + "notice.")
  static let drainTimeout = Setting(
    "server.drain.timeout", .duration(seconds: 0...3600), default: .seconds(30), fixed: .of(\.server.drainTimeout),
    "How long requests may take after the delay.")
  static let loops = Setting(
    "server.loops", .integer(1...256), example: "2", fixed: .of(\.server.loops),
    "Event loops, a thread each. Default: as many as the cores that affinity and cgroup quota allow.")
  static let poller = Setting<IOLoop.PollerKind>(
    "server.poller", .word, default: .epoll, fixed: .of(\.server.poller),
    "How event loops wait. Use `poll` to exclude epoll as the cause of a fault.")

  static let known: [any SettingRow] =
    [
      host, port, unixSocket, reusePort, certificateFile, keyFile, certificates, clientCAFile, ticketKeyFiles,
      hsts, http2, trustedProxies, forwarded, proxyProtocol, hosts, page, module,
      drainDelay, drainTimeout, loops, poller, landlock,
    ] + ServerLimits.table.map(\.known)

  init?(_ reader: inout SettingsReader, host: HostFacts) {
    let written = Self.readAddress(&reader)
    let address = host.sockets.public.isEmpty ? written : .passed(host.sockets.public)
    let reusePort = Self.readReusePort(&reader)
    let tls = Self.readTLS(&reader)
    let loops = Self.readLoops(&reader, host: host)
    let descriptors = DescriptorBudget(openFiles: host.openFiles, loops: loops ?? 1)
    let limits = ServerLimits(&reader, host: host, most: max(1, descriptors.connections))
    let drainDelay = reader.read(Self.drainDelay)
    let drainTimeout = reader.read(Self.drainTimeout)
    let poller = reader.read(Self.poller)
    let landlock = reader.read(Self.landlock)
    let trustedProxies = reader.read(Self.trustedProxies)
    let forwarded = reader.read(Self.forwarded)
    let proxyProtocol = Self.readProxyProtocol(&reader, trustedProxies: trustedProxies)
    let hosts = reader.read(Self.hosts) ?? []
    let page = reader.read(Self.page) ?? false
    let module = reader.read(Self.module) ?? false
    guard let trustedProxies, let forwarded, let proxyProtocol, let address, let reusePort, let drainDelay,
      let drainTimeout, let loops, let poller, let landlock
    else { return nil }
    let isPortOfPlatform = reader.source(of: Self.port.path) == .environment(SettingsLayers.platformPort)
    self.init(
      address: address, isPortOfPlatform: isPortOfPlatform, reusePort: reusePort, landlock: landlock, tls: tls,
      trustedProxies: trustedProxies, forwarded: forwarded, proxyProtocol: proxyProtocol, hosts: hosts, page: page,
      module: module, limits: limits, drainDelay: drainDelay, drainTimeout: drainTimeout, loops: loops, poller: poller,
      descriptors: descriptors)
  }

  /// Returns the setting. By default one loop for each core, limited by the available descriptors.
  private static func readLoops(_ reader: inout SettingsReader, host: HostFacts) -> Int? {
    let most = DescriptorBudget.mostLoops(openFiles: host.openFiles)
    let loops = reader.isSet(loops.path) ? reader.read(loops) : min(host.cores, 256, max(1, most))
    if let loops, loops > most {
      reader.reject(
        Self.loops.path,
        problem: """
          \(loops) \(loops == 1 ? "loop needs" : "loops need") \(DescriptorBudget.least(loops: loops)) descriptors at \
          least, and this process has \(host.openFiles)
          """,
        remedy: (most > 0 ? "write \(most) at most, or " : "") + DescriptorBudget.remedy)
    }
    return loops
  }

  /// Returns the setting. It is an error if it is true and no proxy is trusted.
  private static func readProxyProtocol(_ reader: inout SettingsReader, trustedProxies: [AddressRange]?) -> Bool? {
    let proxyProtocol = reader.read(proxyProtocol)
    if proxyProtocol == true, trustedProxies?.isEmpty == true {
      reader.reject(
        Self.proxyProtocol.path, problem: "is true, and server.trustedProxies is empty",
        remedy: "write the addresses of the proxies there: the server reads PROXY headers from these only")
    }
    return proxyProtocol
  }

  private static func readAddress(_ reader: inout SettingsReader) -> Address? {
    guard reader.isSet(unixSocket.path) else {
      let host = reader.read(host)
      let port = reader.read(port)
      guard let host, let port else { return nil }
      return .tcp(host, port: UInt16(clamping: port))
    }
    // The variable may come from an image, whose user cannot unset it.
    let isFromVariable = reader.source(of: host.path) == .environment(host.variable)
    for path in [isFromVariable ? nil : host.path, port.path].compactMap({ $0 }) where reader.isSet(path) {
      reader.reject(path, problem: "is set, and so is server.unixSocket", remedy: "keep one of the two")
    }
    return reader.read(unixSocket).map(Address.unix)
  }

  /// Returns the setting. It is an error for a Unix-domain socket, of which each process has its own.
  private static func readReusePort(_ reader: inout SettingsReader) -> Bool? {
    let reusePort = reader.read(reusePort)
    if reusePort == true, reader.isSet(unixSocket.path) {
      reader.reject(
        Self.reusePort.path, problem: "is true, and server.unixSocket is set",
        remedy: "leave it out, and let the service manager pass the socket")
    }
    return reusePort
  }

  static func readTLS(_ reader: inout SettingsReader) -> TLSFiles? {
    let certificate = reader.read(certificateFile)
    let key = reader.read(keyFile)
    let certificates = reader.readObjects(certificates) { CertificateFiles(&$0) } ?? []
    let clientCA = reader.read(clientCAFile)
    let ticketKeyFiles = reader.read(ticketKeyFiles) ?? []
    let hsts = reader.read(hsts)
    let readHTTP2 = reader.read(http2)
    for (present, absent) in [(certificateFile.path, keyFile.path), (keyFile.path, certificateFile.path)]
    where reader.isSet(present) && !reader.isSet(absent) {
      reader.missing(absent, remedy: "HTTPS needs it together with \(present): write a PEM file's path")
    }
    if !reader.isSet(certificateFile.path), !reader.isSet(keyFile.path) {
      rejectWithoutTLS(&reader, http2: readHTTP2 == true)
      return nil
    }
    return TLSFiles(
      certificateFile: certificate, keyFile: key,
      // An invalid element keeps its place, which errors of the files name.
      certificates: certificates.map { $0 ?? CertificateFiles() }, clientCAFile: clientCA,
      ticketKeyFiles: ticketKeyFiles, hsts: hsts, http2: readHTTP2 ?? true)
  }

  /// Rejects settings that have no effect without a certificate.
  private static func rejectWithoutTLS(_ reader: inout SettingsReader, http2: Bool) {
    let files = "write server.tls.certificateFile and .keyFile"
    let proxy = "leave it out, or have the proxy that speaks HTTPS"
    let remedies = [
      (clientCAFile.path, "\(files): without TLS no client can send a certificate"),
      (certificates.path, "\(files): clients that request no known name get that certificate"),
      (ticketKeyFiles.path, "\(files): without TLS there are no session tickets"),
      (hsts.path, "\(proxy) send Strict-Transport-Security"),
    ]
    for (path, remedy) in remedies where reader.isSet(path) {
      reader.reject(path, problem: "is set, and server.tls.certificateFile is not", remedy: remedy)
    }
    if http2, reader.isSet(Self.http2.path) {
      reader.reject(
        Self.http2.path, problem: "is true, and server.tls.certificateFile is not set",
        remedy: "\(proxy) offer HTTP/2")
    }
  }
}

extension Settings.Server.CertificateFiles {
  static let certificateFile = Setting(
    "certificateFile", .path, example: #""/etc/musickit-token-server/other.crt""#,
    "PEM, the leaf first and then its chain.")
  static let keyFile = Setting(
    "keyFile", .path, example: #""/etc/musickit-token-server/other.key""#,
    "PEM, not encrypted.")

  static let known: [any SettingRow] = [certificateFile, keyFile]

  init(_ reader: inout SettingsReader) {
    for row in [Self.certificateFile, Self.keyFile] { reader.require(row.path, remedy: "write a PEM file's path") }
    self.init(certificateFile: reader.read(Self.certificateFile), keyFile: reader.read(Self.keyFile))
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
