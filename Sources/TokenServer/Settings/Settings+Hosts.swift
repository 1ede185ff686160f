import Access
import HTTPServer

/// Which host names a listener answers for. A loopback listener is the one that a rebound DNS name can reach through a
/// browser of this machine; behind credentials such a page finds nothing, so only what needs none is guarded.
extension Settings {
  /// Those of the public listener; nil for any.
  var publicHosts: AllowedHosts? {
    let isGuarded = server.address.isLoopback && access.anonymous?.mayHaveAnything ?? false
    return allowed(server.hosts, isGuarded: isGuarded, setting: Server.hosts.path)
  }

  /// Those of the admin listener; nil for any.
  var adminHosts: AllowedHosts? {
    allowed(admin?.hosts ?? [], isGuarded: admin?.host.isLoopback ?? false, setting: Admin.hosts.path)
  }

  private func allowed(_ hosts: [String], isGuarded: Bool, setting: String) -> AllowedHosts? {
    guard !access.servesEverybody, isGuarded || !hosts.isEmpty else { return nil }
    return AllowedHosts(names: hosts, setting: setting)
  }
}

extension Settings.Server.Address {
  /// Whether only this machine can reach it by TCP.
  fileprivate var isLoopback: Bool {
    if case .tcp(let host, _) = self { host.isLoopback } else { false }
  }
}
