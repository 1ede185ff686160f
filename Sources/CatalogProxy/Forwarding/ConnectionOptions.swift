/// The names in a `Connection` field: what it names is meant for the next hop alone, and goes no further
/// (RFC 9110 §7.6.1). Read in place each time, since few fields are asked for, and the value may be all commas.
struct ConnectionOptions {
  private let value: [UInt8]

  /// From a field value; empty for none.
  init(_ value: some Sequence<UInt8>) {
    self.value = Array(value)
  }

  /// Its length in bytes.
  var count: Int { value.count }

  /// Whether the field of that name, in lower case, is meant for this hop.
  func names(_ lowercaseName: String) -> Bool {
    let bytes = value.span
    var scanner = FieldScanner()
    while !scanner.isAtEnd(in: bytes) {
      scanner.skipWhitespace(in: bytes)
      let name = scanner.token(in: bytes)
      if FieldText.isEqual(name, of: bytes, to: lowercaseName) { return true }
      _ = scanner.skip(past: ",", in: bytes)
    }
    return false
  }
}
