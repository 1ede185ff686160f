import HTTP1

/// What a route does for one method.
public struct Operation: Sendable {
  let method: RequestHead.Method
  let bodyLimit: Int
  let respond: @Sendable (Request) -> Response

  /// An operation without request content: a body that comes all the same is discarded.
  public static func get(_ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    Operation(method: .get, bodyLimit: 0, respond: respond)
  }

  /// An operation that reads a body of at most `bodyLimit` bytes; more is refused with 413.
  public static func post(bodyLimit: Int, _ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    Operation(method: .post, bodyLimit: bodyLimit, respond: respond)
  }
}
