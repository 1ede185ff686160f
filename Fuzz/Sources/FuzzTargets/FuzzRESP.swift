import Redis

/// Parses the input as replies of a store, at once and in two parts. Traps unless both give the
/// same values and the same error, within the limits.
func fuzzRESP(_ bytes: [UInt8]) {
  let whole = parse(bytes, cut: 0)
  precondition(parse(bytes, cut: cut(bytes)) == whole, "in two parts")
  for value in whole.values { check(value, depth: 0) }
}

/// The values before the end or the first error.
private struct Outcome: Equatable {
  var values: [RESPValue] = []
  var error: RESPError?
}

private let limits: RESPLimits = {
  var limits = RESPLimits()
  (limits.string, limits.line, limits.values, limits.depth, limits.total) = (2048, 64, 64, 4, 4096)
  return limits
}()

private func parse(_ bytes: [UInt8], cut: Int) -> Outcome {
  var parser = RESPParser(limits)
  var outcome = Outcome()
  var unread: [UInt8] = []
  do {
    for part in [bytes[..<cut], bytes[cut...]] {
      unread += part
      var position = 0
      while let value = try parser.next(in: unread.span, from: &position) { outcome.values.append(value) }
      precondition(position <= unread.count)
      unread.removeFirst(position)
      precondition(unread.count <= limits.string + 2 || unread.count <= limits.line + 2, "holds more than one string")
    }
  } catch {
    outcome.error = error
  }
  return outcome
}

private func check(_ value: RESPValue, depth: Int) {
  precondition(depth <= limits.depth)
  switch value {
  case .text(let bytes), .error(let bytes): precondition(bytes.count <= limits.string)
  case .array(let values), .push(let values):
    precondition(values.count <= limits.values)
    for value in values { check(value, depth: depth + 1) }
  case .null, .integer: break
  }
}
