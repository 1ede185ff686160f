import HTTPMessages

/// Content that is read until it is whole, or too long to be kept.
struct PartialContent {
  private let reader: any ContentReader
  private(set) var bytes: [UInt8] = []
  private var isWhole = false

  init(_ reader: any ContentReader) {
    self.reader = reader
  }

  /// Reads to the end. False if there is more than `limit` bytes: what was read is kept, the rest is still to come.
  mutating func read(upTo limit: Int) async throws(ContentError) -> Bool {
    while let part = try await reader.read() {
      if bytes.isEmpty { bytes = part } else { bytes.append(contentsOf: part) }
      guard bytes.count <= limit else { return false }
    }
    isWhole = true
    return true
  }

  /// `response` with what was read put back in front of the rest.
  func response(_ response: UpstreamResponse) -> UpstreamResponse {
    var response = response
    response.content = Continuation(bytes, then: isWhole ? nil : reader)
    return response
  }

  /// Bytes that were read before, and then the rest.
  private final class Continuation: ContentReader, @unchecked Sendable {
    // Sendable by confinement: used by one task at a time, on the loop of `rest`.
    private var first: [UInt8]?
    private let rest: (any ContentReader)?

    init(_ first: [UInt8], then rest: (any ContentReader)?) {
      self.first = first
      self.rest = rest
    }

    func read() async throws(ContentError) -> [UInt8]? {
      if let bytes = first {
        first = nil
        return bytes
      }
      return try await rest?.read()
    }

    func cancel() {
      first = nil
      rest?.cancel()
    }
  }
}
