public import HTTPTypes

extension HeaderPolicy {
  /// The fields of an upstream's response that the caller gets, and `Via`.
  ///
  /// - Parameters:
  ///   - upstream: End-to-end fields as they were received.
  ///   - version: The version of HTTP that the upstream answered in, as `Via` has it: `2`, or `1.1`.
  public func responseFields(_ upstream: HTTPFields, version: StaticString = "2") -> HTTPFields {
    let options = ConnectionOptions(upstream[.connection] ?? "")
    var fields = HTTPFields()
    for field in upstream {
      let name = field.name.canonicalName
      guard Self.passed.contains(name), !options.names(name) else { continue }
      fields.append(field)
    }
    if let location = fields[.location] { fields[.location] = origin.localized(location) }
    fields.append(HTTPField(name: .via, value: "\(version) \(product)"))
    return fields
  }

  /// Names in lower case. Not among them, for example: `Set-Cookie` and `Access-Control-*`, which would speak for this
  /// origin; `Strict-Transport-Security`, `Alt-Svc` and `Server`, which speak of Apple's hosts; `Link`, which makes
  /// browsers fetch; `Accept-Ranges`, because no range is forwarded.
  private static let passed: Set<String> = [
    "allow", "content-encoding", "content-language", "content-type", "etag", "last-modified", "location", "retry-after",
    "via", "www-authenticate",
    // What Apple's support asks for.
    "x-apple-jingle-correlation-key", "x-apple-request-uuid",
  ]
}
