import HTTP1

/// What a route does for one method.
public struct Operation: Sendable {
  let method: RequestHead.Method
  let action: Action

  enum Action: Sendable {
    /// Answers at once; a body that comes all the same is discarded.
    case respond(@Sendable (Request) -> Response)
    /// Judges the head, and then reads content of at most so many bytes.
    case read(limit: Int, @Sendable (Request) -> HeadReply)
    /// Answers at once or after a wait, and may read the content meanwhile.
    case reply(@Sendable (Request) -> Reply)
  }

  /// An operation without request content: a body that comes all the same is discarded.
  public static func get(_ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    Operation(method: .get, action: .respond(respond))
  }

  /// The same, for an answer that may have to be waited for.
  public static func get(reply: @escaping @Sendable (Request) -> Reply) -> Operation {
    Operation(method: .get, action: .reply(reply))
  }

  /// An operation that reads content of at most `bodyLimit` bytes, if the head gives no reason to refuse it; more is
  /// refused with 413.
  public static func post(bodyLimit: Int, judge: @escaping @Sendable (Request) -> HeadReply) -> Operation {
    Operation(method: .post, action: .read(limit: bodyLimit, judge))
  }
}
