import JSON

/// Entry point of libFuzzer: reads the input as the JSON of a token or of `POST /token`, and traps unless what was read
/// can be looked at and reads the same again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = [UInt8](UnsafeBufferPointer(start: start, count: count))
  let value = JSONReader.read(bytes)
  precondition(value == JSONReader.read(bytes), "the same bytes, the same value")
  guard let value else { return 0 }
  precondition(String(validating: bytes, as: UTF8.self) != nil, "what is read is UTF-8")
  precondition(value.repeatedNames.allSatisfy { value[$0.text] != nil }, "a repeated member is there")
  // White space around a text means nothing (RFC 8259 §2).
  precondition(JSONReader.read([0x20, 0x0A] + bytes + [0x09]) == value)
  return 0
}
