import HTTP1
import HTTPTypes

@testable import HTTPCache

/// Responses, times and requests for the tests.
enum Sample {
  /// 2027-01-15 08:00:00 UTC, a Friday.
  static let start = 1_800_000_000

  /// The time `seconds` after the start, on both clocks.
  static func time(_ seconds: Int) -> CacheTime {
    CacheTime(monotonic: 5_000_000_000 + seconds * 1_000_000_000, wall: start + seconds)
  }

  static func date(_ seconds: Int) -> String {
    var bytes: [UInt8] = []
    HTTPDate(secondsSinceEpoch: start + seconds).append(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  static func received(
    _ status: HTTPResponse.Status = .ok, _ fields: FieldLines = [:], sent: FieldLines = [:], at seconds: Int = 0,
    delay: Int = 0
  ) -> ReceivedResponse {
    ReceivedResponse(
      status: status, fields: fields, sent: sent, requestedAt: time(seconds - delay),
      receivedAt: time(seconds))
  }

  static func response(
    _ status: HTTPResponse.Status = .ok, _ fields: FieldLines = [:], body: [UInt8] = Array("{}".utf8),
    sent: FieldLines = [:], at seconds: Int = 0, delay: Int = 0, settings: CacheSettings = CacheSettings()
  ) throws -> StoredResponse {
    try StoredResponse(
      received(status, fields, sent: sent, at: seconds, delay: delay), body: body, settings: settings)
  }

  /// Request directives, one Cache-Control line for each argument.
  static func request(_ lines: String...) -> RequestDirectives {
    var directives = RequestDirectives()
    for line in lines { directives.add(cacheControl: Array(line.utf8).span) }
    return directives
  }

  /// JSON that compresses well.
  static func json(_ count: Int) -> [UInt8] {
    Array(String(repeating: #"{"id":"1200868601","type":"albums"},"#, count: count / 36 + 1).utf8.prefix(count))
  }
}

extension StoredResponse {
  /// Returns the response after the attempt to compress it.
  func compressed() -> StoredResponse {
    judged.awaitsCompression ? compressed(to: Gzip.deflate(judged.content.identity)) : self
  }
}

extension FieldSection {
  /// The field lines as they are sent, each without its CRLF.
  var lines: [String] {
    var bytes: [UInt8] = []
    let none: [UInt8] = []
    ResponseSerializer.append(
      status: .ok, prepared: self, fields: [:], contentLength: nil, date: none.span, requestID: none.span,
      keepAlive: true, version: .http11, to: &bytes)
    return String(decoding: bytes, as: UTF8.self).split(separator: "\r\n").dropFirst().map(String.init)
  }

  func value(_ name: String) -> String? {
    lines.first { $0.lowercased().hasPrefix(name.lowercased() + ": ") }.map { String($0.dropFirst(name.count + 2)) }
  }
}
