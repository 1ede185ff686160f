import Bytes
import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import JSON
import Memory

/// What Apple says in an error response.
extension UpstreamResponse {
  /// What the fields say.
  var words: ReplacedResponse { words(ErrorObject()) }

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

  /// The content, if it is short JSON.
  private func errorContent(_ memory: MemoryBudget) -> PartialContent? {
    guard isJSON, contentLength ?? 0 <= ErrorObject.mostBytes else { return nil }
    return PartialContent(content, length: contentLength, upTo: ErrorObject.mostBytes, memory)
  }

  private func words(of content: [UInt8]) -> ReplacedResponse {
    words(ErrorObject(content, isGzip: fields.text(of: "content-encoding") == "gzip"))
  }

  private func words(_ error: ErrorObject) -> ReplacedResponse {
    ReplacedResponse(
      status: status.code, code: error.code, id: error.id, title: error.title,
      correlationKey: fields.text(of: "x-apple-jingle-correlation-key").flatMap { Self.printable($0.utf8) },
      requestUUID: fields.text(of: "x-apple-request-uuid").flatMap { Self.printable($0.utf8) },
      retryAfter: fields.text(of: "retry-after").flatMap { Self.printable($0.utf8) })
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
