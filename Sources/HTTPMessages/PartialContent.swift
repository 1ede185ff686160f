package import Memory

/// Content that is read until it is complete or too long to keep. Confined to the event loop of its reader.
package struct PartialContent: @unchecked Sendable {
  // Sendable by confinement: one task at a time uses it.

  package enum Reading {
    case whole
    /// The content is longer than the limit. The bytes read so far are kept, and the rest still has to be read.
    case tooLong
    case refused
  }

  private let reader: any ContentReader
  private let memory: MemoryBudget
  private let holder: MemoryBudget.Holder?
  private let purpose: MemoryBudget.Purpose
  /// The charge of the bytes. Content that comes at once is not kept across a wait, and so is not charged.
  private var hold: MemoryHold?
  private let length: Int?
  private let limit: Int
  /// The bytes read so far, in one array. Separate parts would leave as much free memory again in the heap between used
  /// blocks, where no budget counts it.
  package private(set) var bytes: [UInt8] = []
  private var isWhole = false

  /// Creates content that is read to its end, or until it has more than `limit` bytes. `memory` is charged for bytes that
  /// are kept across a wait. `length`: in bytes, if the upstream has stated it; a caller's statement must not take memory.
  /// `holder`: the address that the memory is charged to; nil for the server itself.
  package init(
    _ reader: any ContentReader, length: Int?, upTo limit: Int, _ memory: MemoryBudget,
    chargedTo holder: MemoryBudget.Holder? = nil, for purpose: MemoryBudget.Purpose = .upstream
  ) {
    (self.reader, self.length, self.limit, self.memory) = (reader, length, limit, memory)
    (self.holder, self.purpose) = (holder, purpose)
  }

  package mutating func read() async throws(ContentError) -> Reading {
    while true {
      if let reading = take(try await reader.read()) { return reading }
      guard charge() else { return .refused }
    }
  }

  package mutating func readAtOnce() throws(ContentError) -> Reading? {
    while true {
      switch try reader.readAtOnce() {
      case .nothing: return charge() ? nil : .refused
      case .part(let part): if let reading = take(part) { return reading }
      case .end: return take(nil)
      }
    }
  }

  private mutating func charge() -> Bool {
    if hold == nil { hold = MemoryHold(memory, for: holder) }
    return hold?.resize(to: bytes.capacity, for: purpose) ?? false
  }

  /// Adds the next part, nil for the end. Returns nil to read on.
  private mutating func take(_ part: [UInt8]?) -> Reading? {
    guard let part else {
      isWhole = true
      return .whole
    }
    if bytes.isEmpty {
      // Short content arrives in one part, and is not copied.
      bytes = part
      if let length, length > part.count { bytes.reserveCapacity(min(length, limit)) }
    } else {
      bytes.append(contentsOf: part)
    }
    guard bytes.count > limit else { return nil }
    return charge() ? .tooLong : .refused
  }

  /// Returns `response` with the bytes already read in front of the rest.
  package func response(_ response: UpstreamResponse) -> UpstreamResponse { response.read(by: readAgain()) }

  /// Returns the bytes already read, and the rest after them. They wait for their reader, so they are charged.
  package func readAgain() -> CollectedContent {
    let hold = hold ?? MemoryHold(memory, for: holder)
    hold.force(to: bytes.capacity)
    return CollectedContent(bytes, hold, then: isWhole ? nil : reader)
  }
}

/// Content of which a part was read before: that part again, and then the rest. It records whether it was read, because it
/// cannot be read twice, and whether the rest broke off.
package final class CollectedContent: ContentReader, @unchecked Sendable {
  // Sendable by confinement: only one task at a time uses it, on the loop of `rest`.
  private var bytes: [UInt8]
  private var sent = 0
  private let hold: MemoryHold
  private let rest: (any ContentReader)?
  package private(set) var isTouched = false
  package private(set) var isBroken = false

  private static let partSize = 65_536

  fileprivate init(_ bytes: [UInt8], _ hold: MemoryHold, then rest: (any ContentReader)?) {
    (self.bytes, self.hold, self.rest) = (bytes, hold, rest)
  }

  package func read() async throws(ContentError) -> [UInt8]? {
    isTouched = true
    guard sent < bytes.count else {
      do throws(ContentError) { return try await rest?.read() } catch {
        isBroken = true
        throw error
      }
    }
    let end = min(sent + Self.partSize, bytes.count)
    let part = Array(bytes[sent..<end])
    sent = end
    if sent == bytes.count { forget() }
    return part
  }

  package func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
  ) {
    hold.move(to: holder)
    guard let rest else { return ended(.success(())) }
    rest.arriveAhead(upTo: limit, chargedTo: holder, then: ended)
  }

  package func cancel() {
    forget()
    rest?.cancel()
  }

  private func forget() {
    (bytes, sent) = ([], 0)
    hold.force(to: 0)
  }
}
