import Tracing

/// Treats the input as the values of trace fields, one in each line: `traceparent` first, then
/// the lines of `tracestate`. Traps if the server would send Apple what it did not read, or anything malformed.
func fuzzTraceContext(_ bytes: [UInt8]) {
  let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { Array($0) }
  if let first = lines.first { parent(first) }
  state(lines.dropFirst())
}

private func parent(_ value: [UInt8]) {
  guard let context = SpanContext(traceparent: value.span) else { return }
  let sent = InlineArray<55, UInt8> { (sent: inout OutputSpan<UInt8>) in context.appendTraceparent(to: &sent) }
  precondition((3..<53).allSatisfy { sent[$0] == value[$0] }, "the identifiers as they came")
  precondition(SpanContext(traceparent: sent.span) == context, "the server reads what it sends")
}

private func state(_ lines: ArraySlice<[UInt8]>) {
  var reader = TraceState.Reader()
  for line in lines { reader.add(line.span) }
  guard let state = reader.state else { return }
  let sent = Array(state.description.utf8)
  precondition(sent.count <= 512, "at most 512 bytes")
  precondition(sent.allSatisfy { (0x20...0x7E).contains($0) }, "visible ASCII and spaces")
  let members = sent.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
  precondition((1...32).contains(members.count) && members.allSatisfy { $0.contains(UInt8(ascii: "=")) })
  var again = TraceState.Reader()
  again.add(sent.span)
  precondition(again.state == state, "the server reads what it sends")
}
