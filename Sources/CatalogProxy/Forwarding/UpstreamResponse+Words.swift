import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import JSON
import Memory

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
