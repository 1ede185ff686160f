package import Access
import Bytes
import EventLoop
import HTTP1
import HTTPClient
import HTTPMessages
import HTTPTypes
package import ServerSettings

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

  func run(on loop: IOLoop) async throws(Failure) -> Fetched {
    let end = Deadline.now.advanced(by: timeouts.whole)
    switch place.address {
    case .keySet(let url): return try await keys(at: url, until: end, on: loop)
    case .discovery(let url, let issuer):
      var (place, failure) = (discovered, Failure?.none)
      if isDiscoveryDue {
        do throws(Failure) {
          place = KeySetDiscovery(url: try await discover(url, issuer, until: end, on: loop), at: now)
        } catch {
          guard place != nil else { throw error }
          failure = error
        }
      }
      guard let place else { throw Failure(description: "The provider has not said where they are.") }
      do throws(Failure) {
        var fetched = try await keys(at: place.url, until: end, on: loop)
        (fetched.discovered, fetched.discoveryFailure) = (place, failure)
        return fetched
      } catch {
        throw Failure(description: failure.map { "\(error) \($0)" } ?? error.description, url: "\(place.url)")
      }
    }
  }

  private var isDiscoveryDue: Bool {
    guard let discovered, !discovered.isDoubtful, occasion == .unknownKey else { return true }
    return now - discovered.at >= KeySetSchedule.lifetimes.lowerBound
  }

  private func discover(
    _ url: ServiceURL, _ issuer: String, until end: Deadline, on loop: IOLoop
  ) async throws(Failure) -> ServiceURL {
    let (json, _) = try await get(url, accept: "application/json", atMost: ProviderMetadata.limit, until: end, on: loop)
    let address: ByteString
    do throws(ProviderMetadataError) { address = try ProviderMetadata(json, issuer: issuer).keySetURL } catch {
      throw Failure(description: error.description)
    }
    do throws(ServiceURL.Invalid) { return try ServiceURL(address.text) } catch {
      throw Failure(
        description: "The jwks_uri of the discovery document, \(Printable.quote(address, limit: 200)), \(error).")
    }
  }

  private func keys(at url: ServiceURL, until end: Deadline, on loop: IOLoop) async throws(Failure) -> Fetched {
    let accept = "application/jwk-set+json, application/json"
    let (json, fields) = try await get(url, accept: accept, atMost: JSONWebKeySet.limit, until: end, on: loop)
    do {
      return Fetched(keys: try JSONWebKeySet(json), maxAge: Self.maxAge(fields))
    } catch {
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
    let response: UpstreamResponse
    do {
      let fields: FieldLines = [
        .accept: accept, .acceptEncoding: "identity", .userAgent: "musickit-token-server/\(Release.version)",
      ]
      var timeouts = timeouts
      timeouts.whole = max(end.duration(since: .now), .milliseconds(1))
      response = try await client.send(UpstreamRequest(.get, ByteString(url.target), fields: fields), limits: timeouts)
    } catch {
      throw Failure(description: error.description)
    }
    guard response.status == .ok else {
      response.content.cancel()
      throw Failure(description: Self.sentence(of: response.status))
    }
    return (try await content(of: response, atMost: limit), response.fields)
  }

  private func content(of response: UpstreamResponse, atMost limit: Int) async throws(Failure) -> [UInt8] {
    do throws(ContentError) { return try await response.content.whole(atMost: limit) } catch {
      response.content.cancel()
      throw Failure(description: "The server could not read the response. \(error)")
    }
  }

  /// Returns the sentence for a status. The server does not follow redirects, because only the operator chooses the
  /// source of keys.
  static func sentence(of status: HTTPResponse.Status) -> String {
    switch status.code {
    case 301, 302, 303, 307, 308: "The response has status \(status.code). Write the address that it redirects to."
    case 304:
      "The response has status 304 (Not Modified), although the request had no condition. The cause is the provider, "
        + "or a cache in front of it."
    default: "The response has status \(status.code)."
    }
  }

  /// Returns Cache-Control's `max-age` less the `Age` of the response in caches (RFC 9111 §5.1, §5.2.2.1); nil without
  /// it.
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
