import Bytes
public import Tracing

/// The identifier of a request in logs, responses and error bodies.
public struct RequestID: Sendable, Hashable, CustomStringConvertible {
  enum Content: Sendable, Hashable {
    /// An identifier from this server: 128 bits, without allocations.
    case own(TraceID)
    /// An identifier from a trusted proxy.
    case foreign(String)
  }

  let content: Content

  /// The number of its characters.
  var count: Int {
    switch content {
    case .own: 32
    case .foreign(let text): text.utf8.count
    }
  }

  /// Creates the identifier that a trusted proxy sent. Returns nil unless it is 1 to 64 characters of `A`–`Z`, `a`–`z`,
  /// `0`–`9`, `.`, `_` and `-`, which are safe in a header field, in JSON and in a log.
  public init?(_ text: String) {
    guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(\.isOfName) else { return nil }
    content = .foreign(text)
  }

  /// Creates an identifier from this server. A trace that the request begins has the same.
  public init(_ own: TraceID) { content = .own(own) }

  /// 32 hexadecimal digits, or the text that the proxy sent.
  public var description: String {
    switch content {
    case .foreign(let text): text
    case .own(let id): id.description
    }
  }
}

extension OutputSpan<UInt8> {
  /// Appends the identifier's characters. Traps without room for them.
  mutating func append(_ id: RequestID) {
    switch id.content {
    case .foreign(let text): append(utf8: text)
    case .own(let id): append(id)
    }
  }
}

extension [UInt8] {
  /// Appends the identifier's characters.
  public mutating func append(_ id: RequestID) {
    append(addingCapacity: id.count) { (output: inout OutputSpan<UInt8>) in output.append(id) }
  }
}
