/// `/sandbox/faults` and `/sandbox/log`, for tests. They require no token, and the emulator does not log their
/// requests.
struct ControlEndpoint {
  let board: FaultBoard
  let meter: RateMeter
  let log: RequestLog
  /// What holds unless something else is set.
  let options: SandboxOptions

  /// - Parameter segments: Those of the whole path.
  func respond(_ request: SandboxRequest, _ segments: [String]) throws(AppleError) -> SandboxResponse {
    guard segments.count == 2 else { throw .pathNotFound }
    switch segments[1] {
    case "faults": return try faults(request)
    case "log": return try log(request)
    default: throw .pathNotFound
    }
  }

  private func faults(_ request: SandboxRequest) throws(AppleError) -> SandboxResponse {
    switch request.method {
    case "GET", "HEAD": break
    case "PUT":
      let order = try FaultOrder(request.content)
      board.set(
        order.rules, clockSkew: order.clockSkew, latency: order.latency, retryAfter: order.retryAfter)
      meter.set(order.limit ?? options.limit)
    case "DELETE":
      board.set([], clockSkew: nil)
      meter.set(options.limit)
    default: throw .methodNotAllowed("GET, HEAD, PUT, DELETE")
    }
    let counts = meter.current
    return .json([
      "faults": .array(board.rules.map(\.document)), "clockSkew": .number(board.clockSkew),
      "admitted": .number(counts.admitted), "limited": .number(counts.limited),
    ])
  }

  private func log(_ request: SandboxRequest) throws(AppleError) -> SandboxResponse {
    switch request.method {
    case "GET", "HEAD": return .json(log.document)
    case "DELETE":
      log.clear()
      return SandboxResponse(204)
    default: throw .methodNotAllowed("GET, HEAD, DELETE")
    }
  }
}
