import HTTP1

/// What a route does for one method.
public struct Operation: Sendable {
  let method: RequestHead.Method
  let action: Action

  enum Action: Sendable {
    /// Answers at once; a body that comes all the same is discarded.
    case respond(@Sendable (Request) -> Response)
    /// Reads a body of at most so many bytes, and then answers, at once or after a wait.
    case read(limit: Int, @Sendable (Request) -> Reply)
    /// Answers at once or after a wait, and may read the body meanwhile.
    case reply(@Sendable (Request) -> Reply)

    /// What it answers to a request whose body, if it reads one before, has been read.
    func reply(to request: Request) -> Reply {
      switch self {
      case .respond(let respond): .now(respond(request))
      case .read(_, let reply), .reply(let reply): reply(request)
      }
    }
  }

  /// An operation without request content: a body that comes all the same is discarded.
  public static func get(_ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    Operation(method: .get, action: .respond(respond))
  }

  /// The same, for an answer that may have to be waited for.
  public static func get(reply: @escaping @Sendable (Request) -> Reply) -> Operation {
    Operation(method: .get, action: .reply(reply))
  }

  /// An operation that reads a body of at most `bodyLimit` bytes; more is refused with 413.
  public static func post(bodyLimit: Int, reply: @escaping @Sendable (Request) -> Reply) -> Operation {
    Operation(method: .post, action: .read(limit: bodyLimit, reply))
  }

  /// The same, for an answer that never has to be waited for.
  public static func post(bodyLimit: Int, _ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    post(bodyLimit: bodyLimit, reply: { .now(respond($0)) })
  }
}
