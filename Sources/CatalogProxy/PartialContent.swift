import HTTPMessages
import Memory

/// Content that is read until it is whole, or too long to be kept.
struct PartialContent {
  /// How far it was read.
  enum Reading {
    /// To its end.
    case whole
    /// There is more than was asked for: what was read is kept, the rest is still to come.
    case tooLong
    /// There is no memory for more.
    case refused
  }

  private let reader: any ContentReader
  private let hold: MemoryHold
  /// All that was read. In one array: collected in parts, it would leave as much free memory in the heap again, between
  /// blocks in use, where it counts for nothing.
  private(set) var bytes: [UInt8] = []
  private var isWhole = false

  /// What is read is charged to `memory`.
  init(_ reader: any ContentReader, memory: MemoryBudget) {
    self.reader = reader
    hold = MemoryHold(memory, for: nil)
  }

  /// Reads to the end, or until there are more than `limit` bytes.
  ///
  /// - Parameter length: How many bytes there are, if the upstream has said it.
  mutating func read(upTo limit: Int, length: Int?) async throws(ContentError) -> Reading {
    if let length { bytes.reserveCapacity(min(length, limit)) }
    while let part = try await reader.read() {
      bytes.append(contentsOf: part)
      guard hold.resize(to: bytes.capacity, for: .upstream) else { return .refused }
      guard bytes.count <= limit else { return .tooLong }
    }
    isWhole = true
    return .whole
  }

  /// `response` with what was read put back in front of the rest.
  func response(_ response: UpstreamResponse) -> UpstreamResponse {
    var response = response
    response.content = Continuation(bytes, hold, then: isWhole ? nil : reader)
    return response
  }

  /// Bytes that were read before, and then the rest.
  private final class Continuation: ContentReader, @unchecked Sendable {
    // Sendable by confinement: used by one task at a time, on the loop of `rest`.
    private var bytes: [UInt8]
    private var sent = 0
    private let hold: MemoryHold
    private let rest: (any ContentReader)?

    /// What a reader gets of them at once.
    private static let partSize = 65_536

    init(_ bytes: [UInt8], _ hold: MemoryHold, then rest: (any ContentReader)?) {
      self.bytes = bytes
      self.hold = hold
      self.rest = rest
    }

    func read() async throws(ContentError) -> [UInt8]? {
      guard sent < bytes.count else { return try await rest?.read() }
      let end = min(sent + Self.partSize, bytes.count)
      let part = Array(bytes[sent..<end])
      sent = end
      if sent == bytes.count { forget() }
      return part
    }

    func cancel() {
      forget()
      rest?.cancel()
    }

    private func forget() {
      (bytes, sent) = ([], 0)
      hold.force(to: 0)
    }
  }
}
