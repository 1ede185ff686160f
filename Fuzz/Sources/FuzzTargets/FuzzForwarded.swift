import HTTP1

/// Treats the input as the client's `Forwarded` or `X-Forwarded-For`, to which a proxy
/// appends. Traps if the input changes the meaning of the proxy's element.
func fuzzForwarded(_ sent: [UInt8]) {
  for field in ForwardedHops.Field.allCases {
    _ = hops(field, sent)
    for (element, address) in elements(field) {
      let value = sent + Array(", \(element)".utf8)
      let first = hops(field, value).first
      precondition(first.map { String(decoding: value[$0], as: UTF8.self) } == address, "the proxy's own element")
    }
  }
}

/// Returns elements that a proxy may append, each with its address.
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

/// Returns all hops. Checks that each is within the value and before the previous hop.
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
