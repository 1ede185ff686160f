/// Parts of content in the order in which they are to be sent. Holds the arrays that it is given; nothing is copied
/// before it is sent.
struct ContentQueue {
  /// Bytes that wait.
  private(set) var count = 0
  /// Whether nothing comes after those.
  private(set) var isComplete = false
  private var parts: [[UInt8]] = []
  /// The first part that still has bytes, and how many of them are gone.
  private var first = 0
  private var offset = 0

  /// Appends a part; after the last one, nothing.
  mutating func append(_ part: [UInt8], isLast: Bool) {
    guard !isComplete else { return }
    isComplete = isLast
    guard !part.isEmpty else { return }
    count += part.count
    parts.append(part)
  }

  /// Moves bytes to `buffer`: as many as it holds, or all that there are.
  /// - Returns: How many.
  mutating func move(to buffer: UnsafeMutableRawBufferPointer) -> Int {
    var moved = 0
    while moved < buffer.count, first < parts.count {
      let length = min(parts[first].count - offset, buffer.count - moved)
      unsafe parts[first].withUnsafeBytes { part in
        // Safe: both ranges are within their buffers by the line above.
        unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[moved..<moved + length])
          .copyMemory(from: UnsafeRawBufferPointer(rebasing: part[offset..<offset + length]))
      }
      moved += length
      offset += length
      if offset == parts[first].count { dropFirst() }
    }
    count -= moved
    return moved
  }

  /// Frees the first part, and the list once it is through, so that a long message does not lengthen it for ever.
  private mutating func dropFirst() {
    parts[first] = []
    first += 1
    offset = 0
    if first == parts.count {
      parts.removeAll(keepingCapacity: true)
      first = 0
    } else if first >= 32, first * 2 >= parts.count {
      parts.removeFirst(first)
      first = 0
    }
  }
}
