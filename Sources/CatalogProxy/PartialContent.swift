import HTTPMessages
import Memory

/// Content that is read until it is whole, or too long to be kept.
///
/// It is kept in the parts in which it came: what is handed on after all is freed part by part, as the caller reads it.
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
  private var parts: [[UInt8]] = []
  private var isWhole = false

  /// What is read is charged to `memory`.
  init(_ reader: any ContentReader, memory: MemoryBudget) {
    self.reader = reader
    hold = MemoryHold(memory, for: nil)
  }

  /// All that was read.
  var bytes: [UInt8] {
    if parts.count == 1 { return parts[0] }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(parts.reduce(0) { $0 + $1.count })
    for part in parts { bytes += part }
    return bytes
  }

  /// Reads to the end, or until there are more than `limit` bytes.
  mutating func read(upTo limit: Int) async throws(ContentError) -> Reading {
    var count = 0
    while let part = try await reader.read() {
      count += part.count
      parts.append(part)
      guard hold.resize(to: count, for: .upstream) else { return .refused }
      guard count <= limit else { return .tooLong }
    }
    isWhole = true
    return .whole
  }

  /// `response` with what was read put back in front of the rest.
  func response(_ response: UpstreamResponse) -> UpstreamResponse {
    var response = response
    response.content = Continuation(parts, hold, then: isWhole ? nil : reader)
    return response
  }

  /// Parts that were read before, and then the rest.
  private final class Continuation: ContentReader, @unchecked Sendable {
    // Sendable by confinement: used by one task at a time, on the loop of `rest`.
    private var parts: ArraySlice<[UInt8]>
    private let hold: MemoryHold
    private let rest: (any ContentReader)?

    init(_ parts: [[UInt8]], _ hold: MemoryHold, then rest: (any ContentReader)?) {
      self.parts = parts[...]
      self.hold = hold
      self.rest = rest
    }

    func read() async throws(ContentError) -> [UInt8]? {
      guard let part = parts.first else { return try await rest?.read() }
      // The slice would keep it.
      parts[parts.startIndex] = []
      parts = parts.dropFirst()
      hold.force(to: max(0, hold.bytes - part.count))
      return part
    }

    func cancel() {
      parts = []
      hold.force(to: 0)
      rest?.cancel()
    }
  }
}
