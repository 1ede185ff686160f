package import Access
import Bytes
import Dispatch
import EventLoop
import HTTP1
import HTTPClient
import HTTPMessages
import HTTPTypes
import Locks
package import ServerSettings
import TLS

/// Where the keys of a provider are, by its discovery document.
package struct KeySetDiscovery: Sendable {
  package let url: ServiceURL
  /// The time of the document, in seconds of a monotonic clock.
  let at: Int
  var isDoubtful = false
}

/// One fetch of a key set, with the discovery document before it if that is due. The responses can cost no more than their
/// limits, and both together no more than the time of one.
///
/// The document is due with each regular fetch. A fetch for an unknown key uses the address that the server knows, unless
/// it is older than five minutes or failed, so that invented keys cost the provider one request and not two.
package struct KeySetFetch: Sendable {
  package struct Fetched: Sendable {
    package let keys: JSONWebKeySet
    /// The lifetime in seconds that the provider states (RFC 9111 §4.2.1); nil if it states none.
    let maxAge: Int?
    /// The address of the keys in the discovery document; nil if the settings have it.
    package var discovered: KeySetDiscovery?
    /// The reason why the server used an earlier address of the keys; nil if it did not.
    var discoveryFailure: Failure?
  }

  /// The reason why a fetch failed: a sentence for the operator.
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
    /// The URL of the keys, if the settings do not have it.
    var url: String?
  }

  /// The timeouts of a fetch: 5 s for the connection, 10 s in all.
  static let timeouts = UpstreamTimeouts(connect: .seconds(5), firstByte: .seconds(10), whole: .seconds(10))

  let place: KeySetPlace
  var discovered: KeySetDiscovery?
  var timeouts = KeySetFetch.timeouts
  /// The time in seconds of a monotonic clock.
  var now = 0
  var occasion = KeySetSchedule.Occasion.age

  func result(on loop: IOLoop) async -> Result<Fetched, Failure> {
    do throws(Failure) { return .success(try await run(on: loop)) } catch { return .failure(error) }
  }

  private func run(on loop: IOLoop) async throws(Failure) -> Fetched {
    let end = Deadline.now.advanced(by: timeouts.whole)
    guard let issuer = place.issuer else { return try await keys(at: place.url, until: end, on: loop) }
    let found: KeySetDiscovery
    var failure: Failure?
    if let discovered, isRecent(discovered) {
      found = discovered
    } else {
      do throws(Failure) {
        found = KeySetDiscovery(url: try await discover(issuer, until: end, on: loop), at: now)
      } catch {
        guard let discovered else { throw error }
        found = discovered
        failure = error
      }
    }
    do throws(Failure) {
      var fetched = try await keys(at: found.url, until: end, on: loop)
      (fetched.discovered, fetched.discoveryFailure) = (found, failure)
      return fetched
    } catch {
      throw Failure(description: failure.map { "\(error) \($0)" } ?? error.description, url: "\(found.url)")
    }
  }

  private func isRecent(_ known: KeySetDiscovery) -> Bool {
    occasion == .unknownKey && !known.isDoubtful && now - known.at < KeySetSchedule.lifetimes.lowerBound
  }

  private func discover(_ issuer: String, until end: Deadline, on loop: IOLoop) async throws(Failure) -> ServiceURL {
    let (json, _) = try await get(
      place.url, accept: "application/json", atMost: ProviderMetadata.limit, until: end, on: loop)
    let address: ByteString
    do throws(ProviderMetadataError) { address = try ProviderMetadata(json, issuer: issuer).keySetURL } catch {
      throw Failure(description: error.description)
    }
    do throws(InvalidValue) { return try ServiceURL(address.text) } catch {
      throw Failure(
        description: "The jwks_uri of the discovery document, \(Printable.quote(address, limit: 200)), \(error).")
    }
  }

  private func keys(at url: ServiceURL, until end: Deadline, on loop: IOLoop) async throws(Failure) -> Fetched {
    let accept = "application/jwk-set+json, application/json"
    let (json, fields) = try await get(url, accept: accept, atMost: JSONWebKeySet.limit, until: end, on: loop)
    do { return Fetched(keys: try JSONWebKeySet(json), maxAge: Self.maxAge(fields)) } catch {
      throw Failure(description: error.description)
    }
  }

  private func get(
    _ url: ServiceURL, accept: String, atMost limit: Int, until end: Deadline, on loop: IOLoop
  ) async throws(Failure) -> ([UInt8], FieldLines) {
    let client: UpstreamClient
    do throws(StartError) { client = UpstreamClient(try place.configuration(for: url), loop: loop) } catch {
      throw Failure(description: error.description)
    }
    defer { client.close() }
    let fields: FieldLines = [
      .accept: accept, .acceptEncoding: "identity", .userAgent: "musickit-token-server/\(Release.version)",
    ]
    var timeouts = timeouts
    timeouts.whole = max(end.duration(since: .now), .milliseconds(1))
    let response: UpstreamResponse
    do {
      response = try await client.send(UpstreamRequest(.get, ByteString(url.target), fields: fields), limits: timeouts)
    } catch { throw Failure(description: error.description) }
    guard response.status == .ok else {
      response.content.cancel()
      throw Failure(description: Self.sentence(of: response.status))
    }
    do throws(ContentError) {
      return (try await response.content.whole(atMost: limit), response.fields)
    } catch {
      response.content.cancel()
      throw Failure(description: "The server could not read the response. \(error)")
    }
  }

  /// The server does not follow redirects, because only the operator chooses the source of keys.
  static func sentence(of status: HTTPResponse.Status) -> String {
    switch status.code {
    case 301, 302, 303, 307, 308: "The response has status \(status.code). Write the address that it redirects to."
    case 304:
      "The response has status 304 (Not Modified), although the request had no condition. The cause is the provider, "
        + "or a cache in front of it."
    default: "The response has status \(status.code)."
    }
  }

  /// Returns Cache-Control's `max-age` less the `Age` of the response (RFC 9111 §5.1, §5.2.2.1); nil without it.
  static func maxAge(_ fields: FieldLines) -> Int? {
    let directives = fields[.cacheControl]?.utf8.split(separator: UInt8(ascii: ",")) ?? []
    for directive in directives {
      let parts = directive.split(separator: UInt8(ascii: "="), maxSplits: 1).map { part in
        ByteString(part.filter { !" \t\"".utf8.contains($0) })
      }
      guard parts.count == 2, parts[0].lowercasedASCII == "max-age" else { continue }
      // The value is bounded before the subtraction. A value that cannot be parsed counts as absent.
      guard let seconds = UInt32(parts[1].text) else { return nil }
      let age = fields[.age].flatMap { UInt32($0) } ?? 0
      return Int(seconds) - Int(age)
    }
    return nil
  }
}

/// The key sets in the settings, without network access: the keys from files, and how to fetch the rest. Creating it
/// finds every error before the server uses any of the settings.
package struct NamedKeySets: Sendable {
  private(set) var read: [KeySetSource: JSONWebKeySet] = [:]
  var places: [KeySetSource: KeySetPlace] = [:]

  /// Whether the server must fetch any of the sets.
  package var areFetched: Bool { !places.isEmpty }

  /// Checks all sources, of which `files` has the contents of files. Throws all errors, a sentence for each.
  package init(_ sources: Set<KeySetSource>, files: KeySetFiles, proxies: ProxyEnvironment) throws(StartError) {
    var errors: [String] = []
    for source in sources {
      do throws(StartError) { try add(source, files, proxies) } catch { errors.append(error.description) }
    }
    guard errors.isEmpty else { throw StartError(errors.sorted().joined(separator: " ")) }
  }

  private mutating func add(
    _ source: KeySetSource, _ files: KeySetFiles, _ proxies: ProxyEnvironment
  ) throws(StartError) {
    switch source {
    case .file(let path):
      guard let keys = files.keys[path] else { throw StartError("The server has not read the key set '\(path)'.") }
      read[source] = keys
    case .url(let text, let caFile):
      let url: ServiceURL
      do { url = try ServiceURL(text) } catch { throw StartError("The key set's address '\(text)' \(error).") }
      places[source] = try KeySetPlace(url: url, authorities: Self.authorities(caFile, files), proxies: proxies)
    case .issuer(let issuer, let caFile):
      let url: ServiceURL
      do { url = try ServiceURL(discoveryOf: issuer) } catch { throw StartError("The issuer '\(issuer)' \(error).") }
      places[source] = try KeySetPlace(
        url: url, issuer: issuer, authorities: Self.authorities(caFile, files), proxies: proxies)
    }
  }

  private static func authorities(_ caFile: String?, _ files: KeySetFiles) throws(StartError) -> TLSClientContext {
    guard let caFile else {
      do { return try TLSClientContext(caSetting: "jwt.caFile") } catch { throw StartError("\(error)") }
    }
    guard let read = files.authorities[caFile] else { throw StartError("The server has not read '\(caFile)'.") }
    return read
  }

  package typealias Results = [KeySetSource: Result<KeySetFetch.Fetched, KeySetFetch.Failure>]

  /// Fetches all sets at once, blocks this thread for at most the time of one, and throws `SocketError` without a loop.
  package func fetch() throws -> Results {
    let loop = try IOLoop.start(label: "doctor")
    defer { loop.stopAndWait() }
    let results = Locked<Results>([:])
    let underWay = DispatchGroup()
    for (source, place) in places {
      underWay.enter()
      Task(executorPreference: loop) {
        let result = await KeySetFetch(place: place).result(on: loop)
        results.withLock { $0[source] = result }
        underWay.leave()
      }
    }
    // The timeouts of the fetches bound this wait.
    underWay.wait()
    return results.withLock { $0 }
  }
}

/// Where the keys of a provider are, and how to reach them.
struct KeySetPlace: Sendable {
  /// The URL of the keys, or with an issuer, that of its discovery document.
  let url: ServiceURL
  let issuer: String?
  private let authorities: TLSClientContext
  private let proxies: ProxyEnvironment

  /// Checks the proxy in front of the place.
  init(
    url: ServiceURL, issuer: String? = nil, authorities: TLSClientContext, proxies: ProxyEnvironment
  ) throws(StartError) {
    (self.url, self.issuer, self.authorities, self.proxies) = (url, issuer, authorities, proxies)
    _ = try configuration(for: url)
  }

  /// Returns the way to a URL of the provider. Its keys may be at another host than its discovery document.
  func configuration(for url: ServiceURL) throws(StartError) -> UpstreamClient.Configuration {
    do {
      var configuration = UpstreamClient.Configuration(
        .https, host: url.origin.hostToResolve, port: url.origin.port, tls: authorities,
        proxy: try proxies.proxy(for: url.origin).map { try UpstreamProxy($0) })
      // HTTP/2 has no use for one request every few minutes.
      configuration.http2 = .never
      return configuration
    } catch { throw StartError("The server cannot fetch the key set at \(url): \(error)") }
  }
}
