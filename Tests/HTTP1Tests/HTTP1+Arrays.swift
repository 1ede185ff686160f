import HTTP1

// The macros of Swift Testing cannot take a call with a span apart, so the tests hand over arrays.

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
