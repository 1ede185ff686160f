import Access
import Bytes
import EventLoop
import HTTPClient
import HTTPMessages
import HTTPTypes

/// One request for a key set. Whatever the answer is, it costs no more than its limits.
struct KeySetFetch {
  /// What it brought.
  struct Answer: Sendable {
    let keys: JSONWebKeySet
    /// How many seconds it may be used, as the provider says (RFC 9111 §4.2.1).
    let maxAge: Int?
  }

  /// Why it brought nothing: a sentence for the operator.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// How long one may take: 5 s until there is a connection, 10 s in all.
  static let timeouts = UpstreamTimeouts(connect: .seconds(5), firstByte: .seconds(10), whole: .seconds(10))

  let target: String
  let timeouts: UpstreamTimeouts

  /// Asks, on the client's loop.
  func answer(by client: UpstreamClient) async throws(Failure) -> Answer {
    let response: UpstreamResponse
    do { response = try await client.send(UpstreamRequest(.get, target, fields: Self.fields), limits: timeouts) } catch
    {
      throw Failure(description: error.description)
    }
    guard response.status == .ok else {
      response.content.cancel()
      throw Failure(description: Self.sentence(of: response.status))
    }
    let json = try await content(of: response)
    do {
      return Answer(keys: try JSONWebKeySet(json), maxAge: Self.maxAge(response.fields))
    } catch {
      throw Failure(description: error.description)
    }
  }

  private static let fields: HTTPFields = [
    .accept: "application/jwk-set+json, application/json", .acceptEncoding: "identity",
    .userAgent: "musickit-token-server/\(Release.version)",
  ]

  private func content(of response: UpstreamResponse) async throws(Failure) -> [UInt8] {
    var content: [UInt8] = []
    do throws(ContentError) {
      while let part = try await response.content.read() {
        guard content.count + part.count <= JSONWebKeySet.limit else {
          response.content.cancel()
          throw .tooLarge(limit: JSONWebKeySet.limit)
        }
        content += part
      }
    } catch {
      throw Failure(description: "The answer could not be read. \(error)")
    }
    return content
  }

  /// A redirect is not followed: where keys come from is the operator's to say.
  static func sentence(of status: HTTPResponse.Status) -> String {
    switch status.code {
    case 301, 302, 303, 307, 308: "The answer has status \(status.code); write the address that it leads to."
    case 304:
      "The answer has status 304, which says that nothing has changed, although the request had no condition: the "
        + "provider, or a cache in front of it, is at fault."
    default: "The answer has status \(status.code)."
    }
  }

  /// Cache-Control's `max-age` less the time that caches have had it already (RFC 9111 §5.1, §5.2.2.1).
  static func maxAge(_ fields: HTTPFields) -> Int? {
    let directives = fields[.cacheControl]?.utf8.split(separator: UInt8(ascii: ",")) ?? []
    for directive in directives {
      let parts = directive.split(separator: UInt8(ascii: "="), maxSplits: 1).map { part in
        ByteString(part.filter { !" \t\"".utf8.contains($0) })
      }
      guard parts.count == 2, parts[0].lowercasedASCII == "max-age" else { continue }
      // Bounded before anything is subtracted; what has no sense is as if it were not there.
      guard let seconds = UInt32(parts[1].text) else { return nil }
      let age = fields[.age].flatMap { UInt32($0) } ?? 0
      return Int(seconds) - Int(age)
    }
    return nil
  }
}
