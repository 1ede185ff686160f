import Access

extension Settings {
  /// The files that settings were read from or name.
  var files: [String] {
    var files = [
      configurationFile, server.tls?.certificateFile, server.tls?.keyFile, server.tls?.clientCAFile,
    ].compactMap { $0 }
    if case .file(let path, _) = musickit.key { files.append(path) }
    for client in access.clients {
      switch client.credential {
      case .jwt(_, .file(let path)): files.append(path)
      case .jwt(_, .url(_, let caFile)): files += [caFile].compactMap { $0 }
      default: continue
      }
    }
    return files
  }

  /// These settings with what is fixed once a server listens taken from `running`.
  func keepingFixed(of running: Settings) -> Settings {
    var kept = self
    let tls = server.tls == nil || running.server.tls == nil ? running.server.tls : server.tls
    kept.server = running.server
    kept.server.tls = tls
    kept.server.hosts = server.hosts
    kept.admin = running.admin
    if let admin { kept.admin?.hosts = admin.hosts }
    kept.catalog = running.catalog
    kept.audit = running.audit
    kept.log = running.log
    return kept
  }

  /// What differs from `other` and is fixed once a server listens.
  func pathsThatNeedRestart(comparedWith other: Settings) -> [String] {
    let differences: [(path: String, differs: Bool)] = [
      ("server.host, server.port or server.unixSocket", server.address != other.server.address),
      ("server.tls", (server.tls == nil) != (other.server.tls == nil)),
      ("server.limits", server.limits != other.server.limits),
      ("server.trustedProxies", server.trustedProxies != other.server.trustedProxies),
      ("server.proxyProtocol", server.proxyProtocol != other.server.proxyProtocol),
      ("server.loops", server.loops != other.server.loops),
      ("server.poller", server.poller != other.server.poller),
      (
        "server.drain", server.drainDelay != other.server.drainDelay || server.drainTimeout != other.server.drainTimeout
      ),
      ("admin", admin?.host != other.admin?.host || admin?.port != other.admin?.port),
      ("catalog", catalog != other.catalog),
      ("audit", audit != other.audit),
      ("log", log != other.log),
    ]
    return differences.filter(\.differs).map(\.path)
  }
}
