import HTTP1
import HTTPCache

#if DEBUG
  import CatalogProxy
  import HTTPTypes

  extension Parser {
    /// Request targets of the catalog.
    static var targets: [Parser] {
      [
        Parser("path", "/v1/", "", { _ = try? CatalogPath($0.span, allowsMe: true) }),
        Parser("query", query), Parser("query-value", "relate=", "", query), Parser("query-name", "", "=1", query),
        Parser("query-filter", "filter[identity]=", "", query),
      ]
    }

    private static func query(_ bytes: [UInt8]) {
      guard let path = try? CatalogPath(Array("/v1/catalog/us/songs/1".utf8).span, allowsMe: true) else { return }
      _ = try? CatalogTarget(path, query: bytes.span, hasUserToken: true)
    }

    /// Fields of requests and of responses, as the proxy and its cache read them.
    static var fields: [Parser] {
      [
        Parser("accept-encoding", { _ = ContentCoding.preferred(acceptEncoding: $0.span) }),
        Parser(
          "cache-control",
          {
            var directives = RequestDirectives()
            directives.add(cacheControl: $0.span)
            directives.add(pragma: $0.span)
          }),
        Parser("if-none-match", { value in conditions { $0.add(ifNoneMatch: value.span) } }),
        Parser("if-modified-since", { value in conditions { $0.add(ifModifiedSince: value.span) } }),
        Parser("connection", { forwarded(Caller(connection: $0)) }),
        Parser("content-type", { forwarded(Caller(contentType: $0)) }),
      ]
        + [
          "cache-control", "vary", "etag", "expires", "age", "date", "content-type", "content-encoding", "connection",
          "location",
        ]
        .compactMap { HTTPField.Name($0) }.map { name in Parser("response-\(name)", { response(name, $0) }) }
    }

    private struct Caller: RequestFields {
      var connection: [UInt8] = Array("keep-alive".utf8)
      var contentType: [UInt8] = Array("application/json".utf8)

      func field(_ name: StaticString) -> FieldOccurrence<ArraySlice<UInt8>> {
        switch name.description {
        case "connection": .single(connection[...])
        case "content-type": .single(contentType[...])
        default: .single(Array("x".utf8)[...])
        }
      }
    }

    private static let headerPolicy = HeaderPolicy(upstream: "https://api.music.apple.com")

    private static func forwarded(_ caller: Caller) {
      guard let path = try? CatalogPath(Array("/v1/me/library/songs".utf8).span, allowsMe: true),
        let target = try? CatalogTarget(path, query: nil, hasUserToken: true)
      else { return }
      var caller = caller
      // A range is refused before anything else is looked at.
      caller.connection.append(contentsOf: ", a".utf8)
      _ = try? headerPolicy.requestFields(for: target, from: caller, hasContent: false)
    }

    private static func conditions(_ fill: (inout Preconditions) -> Void) {
      var preconditions = Preconditions()
      fill(&preconditions)
      _ = respond([.eTag: "\"x\""])?.isNotModified(preconditions, now: now)
    }

    private static func response(_ name: HTTPField.Name, _ value: [UInt8]) {
      let fields: FieldLines = [name: String(decoding: value, as: UTF8.self)]
      var all = headerPolicy.responseFields(fields)
      all.append(contentsOf: fields)
      _ = respond(all)
    }

    private static let now = CacheTime(monotonic: 0, wall: 1_795_000_000)

    private static func respond(_ fields: FieldLines) -> StoredResponse? {
      try? StoredResponse(
        ReceivedResponse(
          status: .ok, fields: fields, requestedAt: now, receivedAt: now),
        body: Array("{}".utf8), settings: CacheSettings())
    }
  }
#endif
