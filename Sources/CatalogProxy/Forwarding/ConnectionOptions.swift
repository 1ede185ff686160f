/// The names in a `Connection` field: what it names is meant for the next hop alone, and goes no further
/// (RFC 9110 §7.6.1).
struct ConnectionOptions {
  private let names: Set<String>

  /// From a field value; nil for none.
  init(_ value: some StringProtocol) {
    names = Set(
      value.utf8.split(separator: UInt8(ascii: ","))
        .map { name in
          String(decoding: name.filter { $0 != 0x20 && $0 != 0x09 }, as: UTF8.self).lowercased()
        })
  }

  /// Whether the field of that name, in lower case, is meant for this hop.
  func names(_ lowercaseName: String) -> Bool {
    names.contains(lowercaseName)
  }
}
