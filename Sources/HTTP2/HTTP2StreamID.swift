/// The number of a stream (RFC 9113 §5.1.1): odd, above 0, each used once on a connection.
public typealias HTTP2StreamID = Int32
