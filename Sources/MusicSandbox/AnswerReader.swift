import EventLoop
import HTTPMessages

/// Content that comes slowly, is made up as it goes, or breaks off.
final class AnswerReader: ContentReader, @unchecked Sendable {
  // Sendable by confinement: it belongs to one loop and is read by one task, as every reader is.

  /// How much of fast content comes at once.
  private static let part = 16_384
  /// How often a part of slow content comes.
  private static let interval = Duration.milliseconds(100)

  private let content: [UInt8]
  private let pace: Int?
  /// Where reading stops, and whether that is too early.
  private let end: Int
  private let breaksOff: Bool
  private let isFilling: Bool
  private let loop: IOLoop
  private var position = 0
  private var isCancelled = false

  /// - Parameter length: What was announced, or would have been.
  init(_ answer: SandboxAnswer, length: Int, loop: IOLoop) {
    content = answer.content
    pace = answer.delivery.pace
    isFilling = answer.delivery.filling != nil
    breaksOff = answer.delivery.ending != .whole
    end = breaksOff ? min(length, isFilling ? length : content.count) / 2 : length
    self.loop = loop
  }

  func read() async throws(ContentError) -> [UInt8]? {
    guard !isCancelled else { throw .cancelled }
    guard position < end else {
      if breaksOff { throw .broken("The answer was to break off.") }
      return nil
    }
    if pace != nil, position > 0 { await Pause.pass(Self.interval, on: loop) }
    guard !isCancelled, !Task.isCancelled else { throw .cancelled }
    let count = min(end - position, pace ?? Self.part)
    defer { position += count }
    return isFilling ? filling(count) : Array(content[position..<position + count])
  }

  func cancel() { isCancelled = true }

  /// A JSON string of spaces, whatever its length: `"   "`, or `0` where there is no room for quotes.
  private func filling(_ count: Int) -> [UInt8] {
    var part = [UInt8](repeating: UInt8(ascii: " "), count: count)
    if position == 0 { part[0] = UInt8(ascii: end == 1 ? "0" : "\"") }
    if position + count == end, end > 1 { part[count - 1] = UInt8(ascii: "\"") }
    return part
  }
}
