import Bytes
public import HTTPTypes

/// Field lines of a message (RFC 9110 §5.2) as bytes: one array with all names and values, and the place of each in it.
///
/// The proxy receives, filters, stores and sends fields in this form, so that no line becomes a string on the way. Names
/// are tokens, and values contain no control characters except HTAB: every initializer and every `append` ensures it.
public struct FieldLines: Sendable {
  /// The place of a field line in ``FieldLines/bytes``.
  public struct Line: Sendable, Equatable {
    private let place: FieldLine
    /// Whether no compression table may contain the value: it is secret, or new in each request (RFC 7541 §7.1.3).
    public let isUnindexed: Bool

    init(_ place: FieldLine, isUnindexed: Bool) { (self.place, self.isUnindexed) = (place, isUnindexed) }

    /// The name, in the case in which it was written.
    public var name: Range<Int> { place.name }
    /// The value without surrounding white space. It may be empty.
    public var value: Range<Int> { place.value }
  }

  /// All names and values, and the bytes between them.
  public private(set) var bytes: [UInt8] = []
  /// The lines in their order.
  public private(set) var lines: [Line] = []

  /// Creates a section without lines.
  public init() {}

  /// Creates a section from checked lines of a longer array, in which their bytes, `section`, begin at `start`.
  init(received section: Span<UInt8>, from start: Int, _ lines: some Collection<FieldLine>) {
    bytes.reserveCapacity(section.count)
    bytes.append(copying: section)
    self.lines.reserveCapacity(lines.count)
    for line in lines {
      let name = line.name.lowerBound - start..<line.name.upperBound - start
      let place = FieldLine(name: name, value: line.value.lowerBound - start..<line.value.upperBound - start)
      self.lines.append(Line(place, isUnindexed: false))
    }
  }

  /// The number of lines.
  public var count: Int { lines.count }
  /// Whether there are no lines.
  public var isEmpty: Bool { lines.isEmpty }
  /// The approximate size in memory in bytes, with the room for further lines.
  public var cost: Int { bytes.capacity + lines.capacity * MemoryLayout<Line>.stride + 64 }

  /// Returns the place of a field's value in ``bytes``. `name` is in lower case.
  public func value(of name: StaticString) -> FieldOccurrence<Range<Int>> {
    var value = FieldOccurrence<Range<Int>>.absent
    let span = bytes.span
    for line in lines where span.equalsIgnoringCase(line.name, name) {
      guard value == .absent else { return .repeated }
      value = .single(line.value)
    }
    return value
  }

  /// Returns whether there is a field. `name` is in lower case.
  public func has(_ name: StaticString) -> Bool {
    let span = bytes.span
    return lines.contains { span.equalsIgnoringCase($0.name, name) }
  }

  /// Returns whether there is a field with the name of this line of another section.
  public func has(nameOf line: Line, of other: FieldLines) -> Bool {
    let name = other.bytes.span.extracting(line.name)
    let span = bytes.span
    return lines.contains { span.equalsIgnoringCase($0.name, bytes: name) }
  }

  /// Calls `body` with the value of each line of a field. `name` is in lower case.
  public func forEachValue(of name: StaticString, _ body: (Span<UInt8>) -> Void) {
    let span = bytes.span
    for line in lines where span.equalsIgnoringCase(line.name, name) { body(span.extracting(line.value)) }
  }

  /// Returns the value of a field as text, several lines joined by commas (RFC 9110 §5.3). `name` is in lower case.
  public func text(of name: StaticString) -> String? {
    var text: String?
    forEachValue(of: name) { value in
      let line = value.string(in: value.indices)
      text = text.map { "\($0), \(line)" } ?? line
    }
    return text
  }

  /// The value of a field as text, several lines joined by commas. Set, it replaces all lines; nil removes them.
  public subscript(name: HTTPField.Name) -> String? {
    get {
      let values = self[values: name]
      return values.isEmpty ? nil : values.joined(separator: ", ")
    }
    set {
      remove(name)
      if let newValue { append(HTTPField(name: name, value: newValue)) }
    }
  }

  /// The values of a field as text, one for each line.
  public subscript(values name: HTTPField.Name) -> [String] {
    let span = bytes.span
    let named = lines.filter { span.equalsIgnoringCase($0.name, text: name.canonicalName) }
    return named.map { span.string(in: $0.value) }
  }

  /// Appends a line. `name` is a token. Control characters in the value become spaces, so that none can end the line.
  public mutating func append(_ name: StaticString, _ value: Span<UInt8>, isUnindexed: Bool = false) {
    appendLine(name.utf8CodeUnitCount, value.count, isUnindexed) { line in
      line.append(name)
      line.appendFieldValue(value)
    }
  }

  /// Appends a line whose value `appendValue` appends: `count` visible ASCII characters.
  public mutating func append(
    _ name: StaticString, count: Int, isUnindexed: Bool, _ appendValue: (inout OutputSpan<UInt8>) -> Void
  ) {
    appendLine(name.utf8CodeUnitCount, count, isUnindexed) { line in
      line.append(name)
      line.append(": ")
      appendValue(&line)
      line.append("\r\n")
    }
  }

  /// Appends a field.
  public mutating func append(_ field: HTTPField) {
    let isUnindexed = field.indexingStrategy == .disallow || field.indexingStrategy == .avoid
    let name = field.name.rawName
    unsafe field.withUnsafeBytesOfValue { value in
      // Safe: the span does not leave the closure that has the bytes.
      name.withUTF8Bytes { append($0, unsafe Span(_unsafeElements: value), isUnindexed: isUnindexed) }
    }
  }

  /// Appends a line of another section.
  public mutating func append(_ line: Line, of other: FieldLines) {
    let start = bytes.count
    bytes.append(line, of: other)
    note(line.name.count, line.value.count, from: start, line.isUnindexed)
  }

  /// Appends all lines of another section.
  public mutating func append(contentsOf other: FieldLines) { for line in other.lines { append(line, of: other) } }

  /// Appends a line. `name` is a token. Control characters in the value become spaces.
  package mutating func append(_ name: Span<UInt8>, _ value: Span<UInt8>, isUnindexed: Bool = false) {
    appendLine(name.count, value.count, isUnindexed) { line in
      line.append(copying: name)
      line.appendFieldValue(value)
    }
  }

  /// Appends the line that `write` appends: a name and a value of these lengths, a colon and a space between, CRLF.
  private mutating func appendLine(
    _ name: Int, _ value: Int, _ isUnindexed: Bool, _ write: (inout OutputSpan<UInt8>) -> Void
  ) {
    let start = bytes.count
    bytes.append(addingCapacity: name + value + 4, initializingWith: write)
    note(name, value, from: start, isUnindexed)
  }

  /// Notes the place of a line that was just appended.
  private mutating func note(_ name: Int, _ value: Int, from start: Int, _ isUnindexed: Bool) {
    let place = FieldLine(name: start..<start + name, value: start + name + 2..<start + name + 2 + value)
    lines.append(Line(place, isUnindexed: isUnindexed))
  }

  /// Makes room for lines with this many bytes in all.
  public mutating func reserveCapacity(_ count: Int, bytes size: Int) {
    lines.reserveCapacity(count)
    bytes.reserveCapacity(size)
  }

  /// Removes all lines of a field. Their bytes stay until the section is copied.
  public mutating func remove(_ name: HTTPField.Name) {
    let own = bytes
    lines.removeAll { own.span.equalsIgnoringCase($0.name, text: name.canonicalName) }
  }

  /// Removes all lines of a field. Their bytes stay until the section is copied. `name` is in lower case.
  public mutating func remove(_ name: StaticString) {
    // Most sections have no such line, and keep their storage.
    guard has(name) else { return }
    let own = bytes
    lines.removeAll { own.span.equalsIgnoringCase($0.name, name) }
  }

  /// Returns copies of the lines whose name `isIncluded`, without room for the others: a peer may have sent many.
  public func filter(_ isIncluded: (_ name: Range<Int>, _ bytes: Span<UInt8>) -> Bool) -> FieldLines {
    let span = bytes.span
    var copy = FieldLines()
    copy.reserveCapacity(min(lines.count, 8), bytes: min(bytes.count, 384))
    for line in lines where isIncluded(line.name, span) { copy.append(line, of: self) }
    return copy
  }
}

/// A field that may occur at most once, with its value or the place of its value. An attack may repeat it.
public enum FieldOccurrence<Value: Sendable & Equatable>: Sendable, Equatable {
  case absent
  /// There is one line. Its value has no white space around it.
  case single(Value)
  case repeated
}

extension Span<UInt8> {
  /// Returns whether the bytes in `range` are those of `other`, ignoring the case of ASCII letters.
  package func equalsIgnoringCase(_ range: Range<Int>, bytes other: Span<UInt8>) -> Bool {
    guard range.count == other.count else { return false }
    for (index, offset) in zip(range, other.indices) where self[index].lowercased != other[offset].lowercased {
      return false
    }
    return true
  }
}

extension [UInt8] {
  /// Appends a field line. Nearly all lines are in their section as they are sent, and are copied whole.
  @inline(__always)
  mutating func append(_ line: FieldLines.Line, of section: FieldLines) {
    let span = section.bytes.span
    let (name, value) = (line.name, line.value)
    if value.lowerBound == name.upperBound &+ 2, value.upperBound &+ 2 <= span.count,
      span[name.upperBound] == .colon, span[name.upperBound &+ 1] == .space,
      span[value.upperBound] == .carriageReturn, span[value.upperBound &+ 1] == .lineFeed
    {
      return append(copying: span.extracting(name.lowerBound..<value.upperBound &+ 2))
    }
    append(copying: span.extracting(name))
    append(": ")
    append(copying: span.extracting(value))
    append("\r\n")
  }
}

extension FieldLines: Equatable {
  /// Returns whether both have the same lines in the same order. The case of names does not count (RFC 9110 §5.1).
  public static func == (left: FieldLines, right: FieldLines) -> Bool {
    guard left.lines.count == right.lines.count else { return false }
    if left.lines == right.lines, left.bytes == right.bytes { return true }
    let (mine, theirs) = (left.bytes.span, right.bytes.span)
    return zip(left.lines, right.lines).allSatisfy { line, other in
      mine.equalsIgnoringCase(line.name, bytes: theirs.extracting(other.name))
        && left.bytes[line.value] == right.bytes[other.value]
    }
  }
}

extension FieldLines: ExpressibleByDictionaryLiteral {
  /// Creates a section from fields, in this order.
  public init(dictionaryLiteral elements: (HTTPField.Name, String)...) {
    for (name, value) in elements { append(HTTPField(name: name, value: value)) }
  }

  /// Creates a section from fields.
  public init(_ fields: HTTPFields) { for field in fields { append(field) } }
}

/// Field lines as a header section of HTTP/1.1 (RFC 9112 §5), to keep them outside of the process.
extension FieldLines {
  /// Appends the lines, each with its CRLF, and the empty line that ends a section.
  package func appendSection(to output: inout [UInt8]) {
    output.reserveCapacity(output.count + bytes.count + 2)
    for line in lines { output.append(line, of: self) }
    output.append("\r\n")
  }

  /// Parses a whole section, as strictly as a received one. Nil if it is malformed, too large, or not all of the bytes.
  package init?(section bytes: Span<UInt8>, limits: HTTP1Limits = HTTP1Limits()) {
    var scanner = FieldLineScanner(limits: limits)
    var position = 0
    var lines: [FieldLine] = []
    while true {
      guard let event = try? scanner.next(in: bytes, from: &position) else { return nil }
      switch event {
      case .needMore: return nil
      case .line(let name, let content): lines.append(FieldLine(name: name, content: content, in: bytes))
      case .end:
        guard position == bytes.count else { return nil }
        self.init(received: bytes, from: 0, lines)
        return
      }
    }
  }
}
