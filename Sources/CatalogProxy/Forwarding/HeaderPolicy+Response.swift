public import HTTPTypes

extension HeaderPolicy {
  /// The fields of an upstream's response that the caller gets, and `Via`.
  ///
  /// - Parameters:
  ///   - upstream: End-to-end fields as they were received.
  ///   - version: The version of HTTP that the upstream answered in, as `Via` has it: `2`, or `1.1`.
  public func responseFields(_ upstream: HTTPFields, version: StaticString = "2") -> HTTPFields {
    let options = upstream[.connection].map { ConnectionOptions($0.utf8) }
    var fields = HTTPFields()
    fields.reserveCapacity(upstream.count + 1)
    for field in upstream {
      let name = field.name.canonicalName
      guard Self.passes(name), options?.names(name) != true else { continue }
      fields.append(field)
    }
    // A URI is visible ASCII (RFC 3986 §2). What is not, two readers take apart in two ways.
    if let location = fields[.location] {
      let isURI = location.utf8.allSatisfy { (0x21...0x7E).contains($0) }
      fields[.location] = isURI ? origin.localized(location) : nil
    }
    fields.append(HTTPField(name: .via, value: "\(version) \(product)"))
    return fields
  }

  /// Names in lower case. Not among them, for example: `Set-Cookie` and `Access-Control-*`, which would speak for this
  /// origin; `Strict-Transport-Security`, `Alt-Svc` and `Server`, which speak of Apple's hosts; `Link`, which makes
  /// browsers fetch; `Accept-Ranges`, because no range is forwarded.
  ///
  /// By their length first, which tells most others apart without a look at them.
  private static func passes(_ name: String) -> Bool {
    switch name.utf8.count {
    case 3: name == "via"
    case 4: name == "etag"
    case 5: name == "allow"
    case 8: name == "location"
    case 11: name == "retry-after"
    case 12: name == "content-type"
    case 13: name == "last-modified"
    case 16: name == "content-encoding" || name == "content-language" || name == "www-authenticate"
    // What Apple's support asks for.
    case 20: name == "x-apple-request-uuid"
    case 30: name == "x-apple-jingle-correlation-key"
    default: false
    }
  }
}
