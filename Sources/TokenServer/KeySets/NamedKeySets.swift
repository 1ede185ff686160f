import Access
import HTTPClient
import HTTPMessages
import ServerSettings
import TLS

/// The key sets that settings name, without network access: those of files as they were read, and how to fetch the
/// others. It finds every error here, before the server uses any of the settings.
struct NamedKeySets: Sendable {
  /// One of them.
  enum Entry: Sendable {
    case read(JSONWebKeySet)
    case remote(KeySetURL, UpstreamClient.Configuration)
  }

  let entries: [KeySetSource: Entry]

  /// Whether any of them are to be fetched.
  var areFetched: Bool {
    entries.values.contains { if case .remote = $0 { true } else { false } }
  }

  /// - Parameters:
  ///   - files: What the files of `sources` hold.
  ///   - proxies: What the environment says of ways to the outside.
  /// - Throws: All that is wrong, a sentence for each.
  init(_ sources: Set<KeySetSource>, files: KeySetFiles, proxies: ProxyEnvironment) throws(StartError) {
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
}

extension NamedKeySets.Entry {
  fileprivate init(
    _ source: KeySetSource, _ files: KeySetFiles, _ proxies: ProxyEnvironment
  ) throws(StartError) {
    switch source {
    case .file(let path):
      guard let keys = files.keys[path] else { throw StartError("The key set '\(path)' was not read.") }
      self = .read(keys)
    case .url(let text, let caFile):
      let url: KeySetURL
      do { url = try KeySetURL(text) } catch { throw StartError("The key set's address '\(text)' \(error).") }
      self = .remote(url, try Self.configuration(url, caFile, files, proxies))
    }
  }

  private static func configuration(
    _ url: KeySetURL, _ caFile: String?, _ files: KeySetFiles, _ proxies: ProxyEnvironment
  ) throws(StartError) -> UpstreamClient.Configuration {
    do {
      var authorities = try TLSClientContext(caSetting: "jwt.caFile")
      if let caFile {
        guard let read = files.authorities[caFile] else { throw StartError("'\(caFile)' was not read.") }
        authorities = read
      }
      var configuration = UpstreamClient.Configuration(
        .https, host: url.origin.hostToResolve, port: url.origin.port, tls: authorities,
        proxy: try proxies.proxy(for: url.origin).map { try UpstreamProxy($0) })
      // One request, and then nothing for minutes.
      configuration.http2 = .never
      return configuration
    } catch {
      throw StartError("The key set at \(url) cannot be fetched: \(error)")
    }
  }
}
