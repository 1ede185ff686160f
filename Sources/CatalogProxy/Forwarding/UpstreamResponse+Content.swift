import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import JSON
import Memory

/// What passes of Apple's responses.
extension UpstreamResponse {
  /// Whether the content is JSON (RFC 6839 §3.1): Apple's own, and not a page of a server before Apple's.
  var isJSON: Bool { contentLength != 0 && (hasUsualType || MediaType(self)?.isJSON ?? false) }
  /// Whether content of this type passes. Without a type it does: browsers do not run it, because of `nosniff`.
  var hasPassableType: Bool { hasUsualType || MediaType(self)?.isPassable ?? !fields.has("content-type") }
  /// The media type, for an error; nil if the response has none, or one that is not safe to quote.
  var typeName: String? { MediaType(self)?.name }

  /// Whether the type is `application/json`, spelled as Apple does in nearly every response. Saves 2,400 instructions.
  private var hasUsualType: Bool {
    let fields = fields
    guard case .single(let value) = fields.value(of: "content-type") else { return false }
    let usual: StaticString = "application/json"
    let bytes = fields.bytes.span
    let end = value.lowerBound + usual.utf8CodeUnitCount
    guard end <= value.upperBound, bytes.equals(value.lowerBound..<end, usual) else { return false }
    guard end < value.upperBound else { return true }
    guard bytes[end] == UInt8(ascii: ";") else { return false }
    return (end..<value.upperBound).allSatisfy { bytes[$0] != UInt8(ascii: ",") }
  }
}

/// A media type (RFC 9110 §8.3.1) without its parameters.
private struct MediaType {
  private let bytes: [UInt8]

  /// Returns nil if the type is absent or malformed. A browser takes what follows the last comma for the type, also in a
  /// parameter (the Fetch standard, "extract a MIME type").
  init?(_ response: UpstreamResponse) {
    guard let text = response.fields.text(of: "content-type"), !text.utf8.contains(UInt8(ascii: ",")) else {
      return nil
    }
    bytes = text.utf8.prefix { $0 != UInt8(ascii: ";") && !$0.isWhitespace }.map(\.lowercased)
    let rest = text.utf8.dropFirst(bytes.count).drop(while: \.isWhitespace)
    guard (3...100).contains(bytes.count), bytes.contains(UInt8(ascii: "/")),
      rest.first ?? UInt8(ascii: ";") == UInt8(ascii: ";"),
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

/// What Apple says in an error response.
extension UpstreamResponse {
  /// The maximum size of the content in bytes, encoded and decoded: 16 KiB. Apple's errors have some hundred.
  private static let mostBytes = 16_384
  /// The maximum number of values in the content.
  private static let mostValues = 512

  var words: ReplacedResponse { words(of: []) }

  /// What fields and content say. Reads the content if it is short JSON, and cancels it otherwise.
  func read(_ memory: MemoryBudget) async -> ReplacedResponse {
    if var error = errorContent(memory), case .whole? = try? await error.read() { return words(of: error.bytes) }
    content.cancel()
    return words
  }

  /// What fields and content say, if the content has arrived. Cancels the content.
  func readAtOnce(_ memory: MemoryBudget) -> ReplacedResponse {
    defer { content.cancel() }
    guard var error = errorContent(memory), case .whole? = try? error.readAtOnce() else { return words }
    return words(of: error.bytes)
  }

  private func errorContent(_ memory: MemoryBudget) -> PartialContent? {
    guard isJSON, contentLength ?? 0 <= Self.mostBytes else { return nil }
    return PartialContent(content, length: contentLength, upTo: Self.mostBytes, memory)
  }

  private func words(of content: [UInt8]) -> ReplacedResponse {
    let isGzip = !content.isEmpty && fields.text(of: "content-encoding") == "gzip"
    let text = isGzip ? try? Gzip.inflate(content, limit: Self.mostBytes) : content
    let error = text.flatMap { JSONReader.read($0, values: Self.mostValues)?["errors"]?.elements.first }
    func member(_ name: String) -> String? { error?[name]?.string.flatMap { Self.printable($0.bytes) } }
    func field(_ name: StaticString) -> String? { fields.text(of: name).flatMap { Self.printable(Array($0.utf8)) } }
    return ReplacedResponse(
      status: status.code, code: member("code"), id: member("id"), title: member("title"),
      correlationKey: field("x-apple-jingle-correlation-key"), requestUUID: field("x-apple-request-uuid"),
      retryAfter: field("retry-after"))
  }

  /// Returns text of the upstream's that is safe in a log and in a response: short printable ASCII. Nil for any other.
  private static func printable(_ text: [UInt8]) -> String? {
    guard (1...ReplacedResponse.longestText).contains(text.count), text.allSatisfy({ (0x20..<0x7F).contains($0) })
    else { return nil }
    return String(decoding: text, as: UTF8.self)
  }
}
