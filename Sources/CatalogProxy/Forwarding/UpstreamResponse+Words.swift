import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import JSON
import Memory

/// What passes of Apple's responses, and what Apple says in those that do not.
extension UpstreamResponse {
  /// Whether the content is JSON (RFC 6839 §3.1): Apple's own, and not a page of a server before Apple's.
  var isJSON: Bool { hasUsualType || MediaType(self)?.isJSON ?? false }

  /// Whether content of this type passes. A response without a type passes: it has no content, or browsers treat it as
  /// none that they run, because of `nosniff`.
  var hasPassableType: Bool { hasUsualType || MediaType(self)?.isPassable ?? !fields.has("content-type") }

  /// Whether the type is `application/json`, spelled as Apple does in nearly every response. Saves 2,400 instructions.
  private var hasUsualType: Bool {
    let usual: StaticString = "application/json"
    let end = usual.utf8CodeUnitCount
    var (values, usualValues) = (0, 0)
    fields.forEachValue(of: "content-type") { value in
      values += 1
      guard value.count >= end, value.equals(0..<end, usual) else { return }
      if value.count == end || value[end] == UInt8(ascii: ";") { usualValues += 1 }
    }
    return values == 1 && usualValues == 1
  }

  /// The media type, for an error; nil if the response has none, or one that is not safe to quote.
  var typeName: String? { MediaType(self)?.name }

  /// What the fields say.
  var words: ReplacedResponse { words(ErrorObject()) }

  /// What fields and content say. Reads the content if it is short JSON, and cancels it otherwise.
  func read(_ memory: MemoryBudget) async -> ReplacedResponse {
    guard isJSON, contentLength ?? 0 <= ErrorObject.mostBytes else {
      content.cancel()
      return words
    }
    var rest = PartialContent(content, length: contentLength, upTo: ErrorObject.mostBytes, memory)
    guard case .whole? = try? await rest.read() else {
      content.cancel()
      return words
    }
    return words(of: rest.bytes)
  }

  /// What fields and content say, if the content has arrived. Cancels the content.
  func readAtOnce(_ memory: MemoryBudget) -> ReplacedResponse {
    defer { content.cancel() }
    guard isJSON, contentLength ?? 0 <= ErrorObject.mostBytes else { return words }
    var rest = PartialContent(content, length: contentLength, upTo: ErrorObject.mostBytes, memory)
    guard case .whole? = try? rest.readAtOnce() else { return words }
    return words(of: rest.bytes)
  }

  private func words(of content: [UInt8]) -> ReplacedResponse {
    words(ErrorObject(content, isGzip: fields.text(of: "content-encoding") == "gzip"))
  }

  private func words(_ error: ErrorObject) -> ReplacedResponse {
    ReplacedResponse(
      status: status.code, code: error.code, id: error.id, title: error.title,
      correlationKey: fields.text(of: "x-apple-jingle-correlation-key").flatMap { Self.printable($0.utf8) },
      requestUUID: fields.text(of: "x-apple-request-uuid").flatMap { Self.printable($0.utf8) })
  }

  /// Returns text of the upstream's that is safe in a log and in a response: short printable ASCII. Nil for any other.
  fileprivate static func printable(_ text: some Collection<UInt8>) -> String? {
    guard (1...ReplacedResponse.longestText).contains(text.count), text.allSatisfy({ (0x20..<0x7F).contains($0) })
    else { return nil }
    return String(decoding: Array(text), as: UTF8.self)
  }
}

/// The first error object of an error response of Apple's.
private struct ErrorObject {
  /// The maximum size of the content in bytes, encoded and decoded: 16 KiB. Apple's errors have some hundred.
  static let mostBytes = 16_384
  /// The maximum number of values in the content.
  private static let mostValues = 512

  var code: String?
  var id: String?
  var title: String?

  init() {}

  init(_ content: [UInt8], isGzip: Bool) {
    guard let text = isGzip ? try? Gzip.inflate(content, limit: Self.mostBytes) : content,
      case .array(let errors)? = JSONReader.read(text, values: Self.mostValues)?["errors"], let first = errors.first
    else { return }
    func member(_ name: String) -> String? {
      guard case .string(let text)? = first[name] else { return nil }
      return UpstreamResponse.printable(text.bytes)
    }
    (code, id, title) = (member("code"), member("id"), member("title"))
  }
}

/// A media type (RFC 9110 §8.3.1) without its parameters.
private struct MediaType {
  private let bytes: [UInt8]

  /// Reads the type. Returns nil if it is absent or malformed.
  init?(_ response: UpstreamResponse) {
    guard let text = response.fields.text(of: "content-type") else { return nil }
    bytes = text.utf8.prefix { $0 != UInt8(ascii: ";") && !$0.isWhitespace }.map(\.lowercased)
    guard (3...100).contains(bytes.count), bytes.contains(UInt8(ascii: "/")),
      bytes.allSatisfy({ $0.isUnreservedInURI || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "+") })
    else { return nil }
  }

  var name: String { String(decoding: bytes, as: UTF8.self) }

  var isJSON: Bool {
    bytes.elementsEqual("application/json".utf8)
      || (bytes.starts(with: "application/".utf8) && bytes.suffix(5).elementsEqual("+json".utf8))
  }

  /// Whether a browser that opens the content runs nothing in it, whatever it contains.
  var isPassable: Bool { isJSON || Self.passable.contains { bytes.elementsEqual($0.bytes) } }

  /// The types beside JSON. SVG, XML and HTML are not among them: they can have scripts.
  private static let passable: [ByteString] = [
    "application/octet-stream", "image/gif", "image/jpeg", "image/png", "image/webp", "text/plain",
  ]
}
