/// What the emulator answers, and how it is to be sent.
public struct SandboxAnswer: Sendable, Equatable {
  /// The status code.
  public var status: Int
  /// The header fields, without those that frame the message.
  public var fields: [SandboxField]
  /// The content.
  public var content: [UInt8]
  /// How it goes out.
  public var delivery = Delivery()

  /// How an answer goes out: as it stands, unless a fault was asked for.
  public struct Delivery: Sendable, Equatable {
    /// How long nothing happens before it.
    public var delay: Duration = .zero
    /// Bytes of content in each tenth of a second; nil for as fast as it goes.
    public var pace: Int?
    /// Where the content ends.
    public var ending = Ending.whole
    /// Whether the connection is over afterwards: GOAWAY in HTTP/2, `Connection: close` in HTTP/1.1.
    public var closesConnection = false
    /// So many bytes of filling in place of `content`, made as they are sent.
    public var filling: Int?

    /// Whether the answer can be given at once and whole.
    var isPlain: Bool { delay == .zero && pace == nil && ending == .whole && filling == nil }
  }

  /// How content ends.
  public enum Ending: Sendable, Equatable {
    /// After its last byte.
    case whole
    /// In its middle, after its whole length was announced.
    case reset
    /// In its middle, without a length: only the missing end of the message tells that it is not whole.
    case truncated
  }

  /// An answer.
  public init(_ status: Int, fields: [SandboxField] = [], content: [UInt8] = []) {
    (self.status, self.fields, self.content) = (status, fields, content)
  }

  static func json(_ document: Document, status: Int = 200) -> SandboxAnswer {
    SandboxAnswer(
      status, fields: [SandboxField("Content-Type", "application/json;charset=utf-8")], content: document.bytes)
  }
}
