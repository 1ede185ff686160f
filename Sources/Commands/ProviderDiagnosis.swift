import Access
import ServerSettings
import TokenServer

/// The check of `doctor` on identity providers: it fetches the keys of each, as a start does.
struct ProviderDiagnosis {
  private static let mostShown = 8

  let clients: [Client]
  let files: KeySetFiles
  let proxies: ProxyEnvironment

  /// Fetches all key sets at once, for at most the time of one, and adds the result to `diagnosis`. Adds nothing if the
  /// server fetches no keys.
  func run(_ diagnosis: inout Diagnosis) {
    do {
      let sources = AccessPolicy(clients: clients, anonymous: nil).keySources
      let named = try NamedKeySets(sources, files: files, proxies: proxies)
      guard named.areFetched else { return }
      diagnosis.add(.identityProviders, after: .origin)
      let results = try named.fetch()
      let failures = results.compactMap { source, result -> String? in
        guard case .failure(let failure) = result else { return nil }
        return "\(name(source)): \(failure)"
      }
      guard failures.isEmpty else {
        return diagnosis.fail(
          .identityProviders, failures.sorted(),
          fix: "Until the server has the keys, JWTs of that provider get 503. Check issuer, jwksURL and caFile.",
          blocks: false)
      }
      let lines = results.compactMap { source, result -> String? in
        guard case .success(let fetched) = result else { return nil }
        let place = fetched.discovered.map { " at \($0.url)" } ?? ""
        return "\(name(source)): \(fetched.keys.count) usable \(fetched.keys.count == 1 ? "key" : "keys")\(place)."
      }
      let more =
        lines.count > Self.mostShown ? ["The keys of \(lines.count - Self.mostShown) more arrive as well."] : []
      diagnosis.pass(.identityProviders, lines.sorted().prefix(Self.mostShown) + more)
    } catch {
      diagnosis.fail(.identityProviders, "\(error)", fix: nil, blocks: false)
    }
  }

  private func name(_ source: KeySetSource) -> String {
    let ids = clients.compactMap { client in
      if case .jwt(_, source) = client.credential { client.id } else { nil }
    }
    let more = ids.count > 3 ? " and \(ids.count - 3) more" : ""
    return "Client \(ids.prefix(3).joined(separator: ", "))\(more)"
  }
}
