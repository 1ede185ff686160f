@testable import Tracing

extension RequestTrace {
  /// A trace with fixed identifiers.
  static var sample: RequestTrace {
    var generator = TraceIDGenerator(high: 0x0123_4567_89AB_CDEF, start: 0)
    return RequestTrace(generator.next())
  }

  /// The fields of the sample in a line of JSON and of text.
  static let json = #""trace_id":"0123456789abcdefe220a8397b1dcdaf","span_id":"\#(sample.spanID)""#
  static let text = "trace_id=0123456789abcdefe220a8397b1dcdaf span_id=\(sample.spanID)"
}
