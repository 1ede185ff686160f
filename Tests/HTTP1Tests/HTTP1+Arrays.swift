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
  func value(_ name: StaticString, _ bytes: [UInt8]) -> Range<Int>? {
    firstField(named: name, in: bytes.span)
  }

  func count(_ name: StaticString, _ bytes: [UInt8]) -> Int {
    fieldCount(named: name, in: bytes.span)
  }
}
