import Bytes
import Glibc
import HTTP1
import HTTPClient
package import HTTPMessages
import HTTPTypes
import JSON
import ServerSettings

/// One request with spans to the collector (`ExportTraceServiceRequest` of OTLP over HTTP, in JSON).
struct SpanBatch {
  enum Result {
    /// The collector took the spans, without the given number of them.
    case accepted(rejected: Int)
    /// The collector cannot take them now. The reason is a sentence. `retryAfter` is the pause that it wants.
    case failedForNow(String, retryAfter: Duration?)
    case failed(String)
  }

  let document: [UInt8]
  private let settings: Settings.SpanExport

  /// The maximum length of a response, in bytes: 64 KiB. A collector sends a short message at most.
  private static let limit = 65_536

  /// Attributes of the settings, such as `service.name`, take the place of those of the instance.
  init(_ spans: [FinishedSpan], _ settings: Settings.SpanExport) {
    self.settings = settings
    let given = settings.attributes.map { (key: $0.key, value: $0.value) }
    let own = Self.instance.filter { attribute in !given.contains { $0.key == attribute.key } }
    document = Self.document(spans, resource: given + own)
  }

  /// - Parameter resource: The properties of the process that makes the spans.
  static func document(_ spans: [FinishedSpan], resource: [(key: String, value: String)]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append("{\"resourceSpans\":[{\"resource\":{\"attributes\":[")
    for (index, attribute) in resource.enumerated() {
      bytes.append(index > 0 ? ",{\"key\":" : "{\"key\":")
      bytes.append(jsonString: attribute.key)
      bytes.append(",\"value\":{\"stringValue\":")
      bytes.append(jsonString: attribute.value)
      bytes.append("}}")
    }
    bytes.append("]},\"scopeSpans\":[{\"scope\":{\"name\":\"musickit-token-server\",\"version\":\"")
    bytes.append(Release.version)
    bytes.append("\"},\"spans\":[")
    for (index, span) in spans.enumerated() {
      if index > 0 { bytes.append(",") }
      bytes += span.json
    }
    bytes.append("]}]}]}")
    return bytes
  }

  /// What tells this process from others of the service, as OpenTelemetry names it: the ID is a UUID (RFC 9562 §5.4).
  private static let instance: [(key: String, value: String)] = {
    var id: [UInt8] = []
    id.append(hexadecimal: UInt64.random(in: .min ... .max) & ~0xF000 | 0x4000)
    id.append(hexadecimal: UInt64.random(in: .min ... .max) >> 2 | 1 << 63)
    for index in [20, 16, 12, 8] { id.insert(UInt8(ascii: "-"), at: index) }
    var name = utsname()
    unsafe uname(&name)
    let host = unsafe withUnsafeBytes(of: &name.nodename) { bytes in
      unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    return [
      ("service.instance.id", String(decoding: id, as: UTF8.self)), ("service.version", "\(Release.version)"),
      ("host.name", host),
    ]
  }()

  func send(by client: UpstreamClient, within time: Duration) async -> Result {
    guard time > .zero else { return .failedForNow("No time was left for another attempt.", retryAfter: nil) }
    let timeouts = UpstreamTimeouts(connect: min(time, .seconds(5)), firstByte: time, whole: time)
    let response: UpstreamResponse
    do throws(UpstreamError) {
      response = try await client.send(
        UpstreamRequest(
          .post, ByteString(settings.endpoint.target), fields: fields, content: WholeContent(document),
          contentLength: document.count), limits: timeouts)
    } catch {
      return .failedForNow(error.description, retryAfter: nil)
    }
    // The status counts, not the content, which may be too long or break off.
    let content = try? await response.content.whole(atMost: Self.limit)
    if content == nil { response.content.cancel() }
    switch response.status.code {
    case 200..<300: return .accepted(rejected: content.map(Self.rejected) ?? 0)
    // The codes that the specification lists, and no others.
    case 429, 502, 503, 504:
      let wanted = response.fields[.retryAfter].flatMap { Int($0) }.map { Duration.seconds(min(max($0, 0), 3600)) }
      return .failedForNow("The response has status \(response.status.code).", retryAfter: wanted)
    case 300..<400:
      return .failed("The response has status \(response.status.code). Write the address that it redirects to.")
    default: return .failed("The response has status \(response.status.code).")
    }
  }

  private var fields: FieldLines {
    var fields: FieldLines = [
      .contentType: "application/json", .accept: "application/json", .acceptEncoding: "identity",
      .userAgent: "musickit-token-server/\(Release.version)",
    ]
    for header in settings.headers {
      guard let name = HTTPField.Name(header.key) else { continue }
      fields[name] = header.value
    }
    return fields
  }

  /// Returns the number of refused spans that the collector states (`partialSuccess`), as a string or a number.
  static func rejected(_ content: [UInt8]) -> Int {
    guard let value = JSONReader.read(content, values: 64)?["partialSuccess"]?["rejectedSpans"] else { return 0 }
    return switch value {
    case .string(let text): max(0, Int(text.text) ?? 0)
    case .number(let text): max(0, Int("\(text)") ?? 0)
    default: 0
    }
  }
}

/// Content that is complete before it is sent.
package final class WholeContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement: only the task that sends the request reads it.
  private var bytes: [UInt8]?

  package init(_ bytes: [UInt8]) { self.bytes = bytes }

  package func read() async throws(ContentError) -> [UInt8]? { bytes.take() }

  package func cancel() { bytes = nil }
}
