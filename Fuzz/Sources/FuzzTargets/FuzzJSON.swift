import JSON

/// Parses the input as the JSON of a token or of `POST /token`. Traps unless the value can be
/// inspected and parses to the same value again.
func fuzzJSON(_ bytes: [UInt8]) {
  let value = JSONReader.read(bytes)
  precondition(value == JSONReader.read(bytes), "the same bytes, the same value")
  guard let value else { return }
  precondition(String(validating: bytes, as: UTF8.self) != nil, "what is read is UTF-8")
  precondition(value.repeatedNames.allSatisfy { value[$0.text] != nil }, "a repeated member is there")
  // White space around a text has no meaning (RFC 8259 §2).
  precondition(JSONReader.read([0x20, 0x0A] + bytes + [0x09]) == value)
}
