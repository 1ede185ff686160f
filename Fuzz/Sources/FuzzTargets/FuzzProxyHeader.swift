import HTTPServer

/// Treats the input as the start of a proxy's connection. Traps if the parsed header depends
/// on how the bytes were split, or on the bytes after the header.
func fuzzProxyHeader(_ bytes: [UInt8]) {
  let whole = outcome(bytes)
  var first: Result<ProxyHeader?, ProxyHeaderError> = .success(nil)
  // All prefixes in order, until one gives a result.
  for length in 0...min(bytes.count, ProxyHeader.maximumLength) {
    first = outcome(Array(bytes[..<length]))
    if first != .success(nil) { break }
  }
  precondition(first == whole, "however the bytes are split")
  if case .success(let header?) = whole {
    precondition(header.length <= min(bytes.count, ProxyHeader.maximumLength), "no byte too many")
    precondition(outcome(Array(bytes[..<header.length]) + [0xff]) == whole, "what follows does not matter")
  }
}

private func outcome(_ bytes: [UInt8]) -> Result<ProxyHeader?, ProxyHeaderError> {
  do throws(ProxyHeaderError) {
    return .success(try ProxyHeader.parse(bytes.span))
  } catch {
    return .failure(error)
  }
}
