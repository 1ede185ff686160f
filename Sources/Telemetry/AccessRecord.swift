import Bytes

/// What the access log says of one request. It has no place for a query, a token or a credential.
public struct AccessRecord: Sendable {
  /// The request's identifier.
  public var requestID: RequestID
  /// The client's address, without the port.
  public var client: String
  /// The request method; one that is no known method is the caller's to replace, since a client may send anything.
  public var method: String
  /// The route's template, `/token`, never the path as it was sent.
  public var route: String
  /// The response's status code.
  public var status: Int
  /// The response's content in bytes.
  public var bytes: Int
  /// From the request's first byte to its response, which is yet to be written.
  public var duration: Duration

  /// A record of one request.
  public init(
    requestID: RequestID, client: String, method: String, route: String, status: Int, bytes: Int, duration: Duration
  ) {
    self.requestID = requestID
    self.client = client
    self.method = method
    self.route = route
    self.status = status
    self.bytes = bytes
    self.duration = duration
  }
}

extension AccessRecord {
  /// Appends the record as a line of `format` to `bytes`.
  func append(to bytes: inout [UInt8], format: LogFormat, time: WallTime) {
    format.begin(&bytes, time: time, level: "info", message: "access")
    format.field(&bytes, literal: "request.id", requestID)
    format.field(&bytes, literal: "client.address", client)
    format.field(&bytes, literal: "http.method", method)
    format.field(&bytes, literal: "http.route", route)
    format.field(&bytes, literal: "http.status", status)
    format.field(&bytes, literal: "response.bytes", self.bytes)
    format.field(&bytes, literal: "duration.ms", milliseconds: duration)
    format.end(&bytes)
  }
}
