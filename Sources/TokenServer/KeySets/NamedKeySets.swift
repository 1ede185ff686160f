package import Access
import Dispatch
import EventLoop
import HTTPClient
import HTTPMessages
import Locks
package import ServerSettings
import TLS

/// The key sets in the settings, without network access: the keys from files, and how to fetch the rest. Creating it
/// finds every error before the server uses any of the settings.
package struct NamedKeySets: Sendable {
  /// The keys of one source, or how to fetch them.
  enum Entry: Sendable {
    case read(JSONWebKeySet)
    case remote(KeySetPlace)
  }

  let entries: [KeySetSource: Entry]

  /// Whether the server must fetch any of the sets.
  package var areFetched: Bool { entries.values.contains { if case .remote = $0 { true } else { false } } }

  /// Checks all sources, of which `files` has the contents of files. Throws all errors, a sentence for each.
  package init(_ sources: Set<KeySetSource>, files: KeySetFiles, proxies: ProxyEnvironment) throws(StartError) {
    var entries: [KeySetSource: Entry] = [:]
    var errors: [String] = []
    for source in sources {
      do throws(StartError) { entries[source] = try Entry(source, files, proxies) } catch {
        errors.append(error.description)
      }
    }
    guard errors.isEmpty else { throw StartError(errors.sorted().joined(separator: " ")) }
    self.entries = entries
  }

  package typealias Results = [KeySetSource: Result<KeySetFetch.Fetched, KeySetFetch.Failure>]

  /// Fetches all of these sets at once on a loop of its own, for at most the time of one, and blocks this thread until
  /// then. Throws `SocketError` if there is no loop.
  package func fetch() throws -> Results {
    let loop = try IOLoop.start(label: "doctor")
    defer { loop.stopAndWait() }
    let results = Locked<Results>([:])
    let underWay = DispatchGroup()
    for case (let source, .remote(let place)) in entries {
      underWay.enter()
      Task(executorPreference: loop) {
        do throws(KeySetFetch.Failure) {
          let fetched = try await KeySetFetch(place: place).run(on: loop)
          results.withLock { $0[source] = .success(fetched) }
        } catch {
          results.withLock { $0[source] = .failure(error) }
        }
        underWay.leave()
      }
    }
    // The timeouts of the fetches bound this wait.
    underWay.wait()
    return results.withLock { $0 }
  }
}

extension NamedKeySets.Entry {
  fileprivate init(_ source: KeySetSource, _ files: KeySetFiles, _ proxies: ProxyEnvironment) throws(StartError) {
    switch source {
    case .file(let path):
      guard let keys = files.keys[path] else { throw StartError("The server has not read the key set '\(path)'.") }
      self = .read(keys)
    case .url(let text, let caFile):
      let url: ServiceURL
      do { url = try ServiceURL(text) } catch { throw StartError("The key set's address '\(text)' \(error).") }
      self = .remote(try KeySetPlace(.keySet(url), authorities: Self.authorities(caFile, files), proxies: proxies))
    case .issuer(let issuer, let caFile):
      let url: ServiceURL
      do { url = try ServiceURL(discoveryOf: issuer) } catch { throw StartError("The issuer '\(issuer)' \(error).") }
      self = .remote(
        try KeySetPlace(
          .discovery(url, issuer: issuer), authorities: Self.authorities(caFile, files), proxies: proxies))
    }
  }

  private static func authorities(_ caFile: String?, _ files: KeySetFiles) throws(StartError) -> TLSClientContext {
    guard let caFile else {
      do { return try TLSClientContext(caSetting: "jwt.caFile") } catch { throw StartError("\(error)") }
    }
    guard let read = files.authorities[caFile] else { throw StartError("The server has not read '\(caFile)'.") }
    return read
  }
}

/// Where the keys of a provider are, and how to reach them.
struct KeySetPlace: Sendable, CustomStringConvertible {
  enum Address: Sendable {
    case keySet(ServiceURL)
    case discovery(ServiceURL, issuer: String)
  }

  let address: Address
  private let authorities: TLSClientContext
  private let proxies: ProxyEnvironment

  /// Checks the proxy in front of the place.
  init(_ address: Address, authorities: TLSClientContext, proxies: ProxyEnvironment) throws(StartError) {
    (self.address, self.authorities, self.proxies) = (address, authorities, proxies)
    _ = try configuration(for: url)
  }

  private var url: ServiceURL {
    switch address {
    case .keySet(let url), .discovery(let url, _): url
    }
  }

  var description: String { "\(url)" }

  /// Returns the way to a URL of the provider. Its keys may be at another host than its discovery document.
  func configuration(for url: ServiceURL) throws(StartError) -> UpstreamClient.Configuration {
    do {
      var configuration = UpstreamClient.Configuration(
        .https, host: url.origin.hostToResolve, port: url.origin.port, tls: authorities,
        proxy: try proxies.proxy(for: url.origin).map { try UpstreamProxy($0) })
      // HTTP/2 has no use for one request every few minutes.
      configuration.http2 = .never
      return configuration
    } catch {
      throw StartError("The server cannot fetch the key set at \(url): \(error)")
    }
  }
}
