/// `/sandbox/faults` and `/sandbox/log`, for who runs the tests: no token is needed, and nothing of it is logged.
struct ControlEndpoint {
  let board: FaultBoard
  let meter: RateMeter
  let log: RequestLog
  /// The rate that holds unless another is set.
  let rate: RequestRate?

  /// - Parameter segments: Those of the whole path.
  func answer(_ request: SandboxRequest, _ segments: [String]) throws(AppleError) -> SandboxAnswer {
    guard segments.count == 2 else { throw .pathNotFound }
    switch segments[1] {
    case "faults": return try faults(request)
    case "log": return try log(request)
    default: throw .pathNotFound
    }
  }

  private func faults(_ request: SandboxRequest) throws(AppleError) -> SandboxAnswer {
    switch request.method {
    case "GET", "HEAD": break
    case "PUT":
      let order = try FaultOrder(request.content)
      board.set(order.rules, clockSkew: order.clockSkew)
      meter.set(order.rate ?? rate)
    case "DELETE":
      board.set([], clockSkew: nil)
      meter.set(rate)
    default: throw .methodNotAllowed("GET, HEAD, PUT, DELETE")
    }
    return .json(["faults": .array(board.rules.map(\.document)), "clockSkew": .number(board.clockSkew)])
  }

  private func log(_ request: SandboxRequest) throws(AppleError) -> SandboxAnswer {
    switch request.method {
    case "GET", "HEAD": return .json(log.document)
    case "DELETE":
      log.clear()
      return SandboxAnswer(204)
    default: throw .methodNotAllowed("GET, HEAD, DELETE")
    }
  }
}
