import HTTP1

// The macros of Swift Testing cannot expand a call with a span, so the tests pass arrays.

extension [UInt8] {
  func text(_ range: Range<Int>) -> String {
    span.string(in: range)
  }
}

extension RequestHeadParser {
  mutating func parse(array: [UInt8]) throws(RequestError) -> Int? {
    try parse(array.span)
  }
}

extension RequestHead {
  func occurrence(_ name: StaticString, _ bytes: [UInt8]) -> FieldOccurrence<Range<Int>> {
    fields.value(of: name, in: bytes.span)
  }

  func value(_ name: StaticString, _ bytes: [UInt8]) -> Range<Int>? {
    if case .single(let range) = occurrence(name, bytes) { range } else { nil }
  }
}
