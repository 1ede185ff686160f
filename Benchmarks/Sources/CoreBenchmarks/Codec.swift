import HTTP1

/// The HTTP/1.1 codec.
enum Codec {
  /// A request of `curl` or a load generator.
  private static let short =
    "GET /token HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"

  /// A request of a browser.
  private static let long = """
    GET /token?origin=https%3A%2F%2Fapp.example.com HTTP/1.1\r
    Host: tokens.example.com\r
    Connection: keep-alive\r
    sec-ch-ua: "Chromium";v="128", "Not;A=Brand";v="24", "Google Chrome";v="128"\r
    sec-ch-ua-mobile: ?0\r
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0\r
    Accept: application/json\r
    Origin: https://app.example.com\r
    Sec-Fetch-Site: same-site\r
    Sec-Fetch-Mode: cors\r
    Referer: https://app.example.com/\r
    Accept-Encoding: gzip, deflate, br, zstd\r
    Accept-Language: en-GB,en;q=0.9\r
    \r

    """

  static func measure() throws -> [Measurement] {
    [
      try parsing("request head of curl", short),
      try parsing("request head of a browser", long),
      serializing(),
    ]
  }

  private static func parsing(_ name: String, _ text: String) throws -> Measurement {
    let bytes = Array(text.utf8)
    var parser = RequestHeadParser()
    return try Measurement("\(name), \(bytes.count) bytes") {
      parser.reset()
      return try parser.parse(bytes.span) ?? 0
    }
  }

  private static func serializing() -> Measurement {
    let fields = FieldSection([
      .contentType: "application/json", .cacheControl: "no-store", .vary: "Origin, Accept",
      .xContentTypeOptions: "nosniff",
    ])
    let date = Array("Sun, 06 Nov 1994 08:49:37 GMT".utf8)
    let id = Array("0123456789abcdef0123456789abcdef".utf8)
    var output: [UInt8] = []
    return Measurement("response head of a token") {
      output.removeAll(keepingCapacity: true)
      ResponseSerializer.append(
        status: .ok, prepared: fields, fields: [:], contentLength: 400, date: date.span, requestID: id.span,
        keepAlive: true, version: .http11, to: &output)
      return output.count
    }
  }
}
