import HTTPMessages

/// Parses the input as an origin. Traps unless the serialization is safe and canonical.
func fuzzOrigin(_ bytes: [UInt8]) {
  let text = String(decoding: bytes, as: UTF8.self)
  do {
    let origin = try Origin(text)
    let bytes = origin.description.utf8
    let again = try Origin(origin.description)
    precondition(again == origin, "the serialization is its own")
    precondition(bytes.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"\"\\*@?#%ABCXYZ".utf8.contains($0) }, "safe in JSON")
    precondition(bytes.count { $0 == UInt8(ascii: "/") } == 2 && !origin.host.isEmpty, "scheme, host and port only")
    precondition(bytes.count <= Origin.limit)
  } catch {
    precondition("\(error)".utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } && "\(error)".utf8.count < 300)
  }
}
