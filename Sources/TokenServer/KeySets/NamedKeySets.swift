import Access
import HTTPClient
import HTTPMessages
import ServerSettings
import TLS

/// The key sets that settings name, checked without network access: the server reads the files and checks addresses and
/// certificates. It finds every error here, before it uses any of the settings.
struct NamedKeySets: Sendable {
  /// One of them.
  enum Entry: Sendable {
    case read(JSONWebKeySet)
    case remote(KeySetURL, UpstreamClient.Configuration)
  }

  let entries: [KeySetSource: Entry]
  /// What the operator should know, each a sentence.
  let notices: [String]

  /// Whether any of them are to be fetched.
  var areFetched: Bool {
    entries.values.contains { if case .remote = $0 { true } else { false } }
  }

  /// Reads and checks. Blocks: not for an event loop.
  ///
  /// - Parameter proxies: What the environment says of ways to the outside.
  /// - Throws: All that is wrong, a sentence for each.
  init(_ sources: Set<KeySetSource>, proxies: ProxyEnvironment) throws(StartError) {
    var entries: [KeySetSource: Entry] = [:]
    var notices: [String] = []
    var errors: [String] = []
    for source in sources {
      do throws(StartError) {
        let entry = try Entry(source, proxies)
        if case (.read(let keys), .file(let path)) = (entry, source) {
          notices += keys.findings.map { "'\(path)': \($0)" }
        }
        entries[source] = entry
      } catch {
        errors.append(error.description)
      }
    }
    guard errors.isEmpty else { throw StartError(errors.sorted().joined(separator: " ")) }
    (self.entries, self.notices) = (entries, notices)
  }
}

extension NamedKeySets.Entry {
  fileprivate init(_ source: KeySetSource, _ proxies: ProxyEnvironment) throws(StartError) {
    switch source {
    case .file(let path): self = .read(try Self.read(path))
    case .url(let text, let caFile):
      let url: KeySetURL
      do { url = try KeySetURL(text) } catch { throw StartError("The key set's address '\(text)' \(error).") }
      self = .remote(url, try Self.configuration(url, caFile, proxies))
    }
  }

  private static func read(_ path: String) throws(StartError) -> JSONWebKeySet {
    let json: [UInt8]
    do { json = try SmallFile.read(path, atMost: JSONWebKeySet.limit) } catch {
      throw StartError("The key set '\(path)' \(error).")
    }
    do { return try JSONWebKeySet(json) } catch { throw StartError("'\(path)': \(error)") }
  }

  private static func configuration(
    _ url: KeySetURL, _ caFile: String?, _ proxies: ProxyEnvironment
  ) throws(StartError) -> UpstreamClient.Configuration {
    do {
      var configuration = UpstreamClient.Configuration(
        .https, host: url.origin.hostToResolve, port: url.origin.port,
        tls: try TLSClientContext(caFile: caFile, caSetting: "jwt.caFile"),
        proxy: try proxies.proxy(for: url.origin).map { try UpstreamProxy($0) })
      // One request, and then nothing for minutes.
      configuration.http2 = .never
      return configuration
    } catch {
      throw StartError("The key set at \(url) cannot be fetched: \(error)")
    }
  }
}
