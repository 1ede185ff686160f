import HTTP1

/// Entry point of libFuzzer: takes the input for what a client sends as `Forwarded` or `X-Forwarded-For`, has a proxy
/// append to it, and traps if anything in it changes what that proxy says.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzForwarded(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let sent = Array(UnsafeBufferPointer(start: start, count: count))
  for field in ForwardedHops.Field.allCases {
    _ = hops(field, sent)
    for (element, address) in elements(field) {
      let value = sent + Array(", \(element)".utf8)
      let first = hops(field, value).first
      precondition(first.map { String(decoding: value[$0], as: UTF8.self) } == address, "the proxy's own element")
    }
  }
  return 0
}

/// What a proxy appends, and the address that it means.
private func elements(_ field: ForwardedHops.Field) -> [(String, String)] {
  switch field {
  case .forwarded:
    [
      ("for=192.0.2.1;proto=https", "192.0.2.1"), (#"For="[2001:db8::1]:4711""#, "2001:db8::1"),
      (#"host="a,b;\",";for=192.0.2.1"#, "192.0.2.1"), (#"for="_a""#, "_a"),
    ]
  case .forwardedFor:
    [("192.0.2.1", "192.0.2.1"), ("[2001:db8::1]:443", "2001:db8::1"), ("2001:db8::1", "2001:db8::1")]
  }
}

/// All of them, each within the value and before the one before it.
private func hops(_ field: ForwardedHops.Field, _ value: [UInt8]) -> [Range<Int>] {
  var hops = ForwardedHops(field, 0..<value.count)
  var found: [Range<Int>] = []
  var end = value.count
  while let hop = hops.next(in: value.span) {
    precondition(hop.lowerBound >= 0 && hop.upperBound <= end, "nearest first")
    end = hop.lowerBound
    found.append(hop)
  }
  return found
}
