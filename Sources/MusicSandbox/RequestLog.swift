import JSON
import Locks
import MusicCatalog

/// A log of the last requests, so that a test sees what a proxy sent to “Apple”. It contains no credentials.
final class RequestLog: Sendable {
  /// The maximum number of requests, of fields in a request, and of bytes in a value.
  enum Limit {
    static let requests = 256
    static let fields = 64
    static let value = 512
  }

  private let state = Locked(State())

  private struct State {
    var entries: [JSONValue] = []
    var count = 0
    var statuses: [Int: Int] = [:]
  }

  /// Records a request and its result.
  ///
  /// - Parameters:
  ///   - token: The text that replaces the developer token.
  ///   - user: The text that replaces the music user token.
  func note(_ request: SandboxRequest, token: String, user: String, status: Int, faults: [Fault]) {
    let fields = request.fields.prefix(Limit.fields).map { field -> JSONValue in
      ["name": .text(field.name), "value": .text(Self.visible(field, token: token, user: user))]
    }
    state.withLock { state in
      state.count += 1
      state.statuses[status, default: 0] += 1
      if state.entries.count == Limit.requests { state.entries.removeFirst() }
      state.entries.append(
        .object(of: [
          ("number", .whole(state.count)), ("method", .text(request.method)),
          ("path", .text(Self.shortened(request.path))), ("query", request.query.map { .text(Self.shortened($0)) }),
          ("authority", .text(request.authority)), ("protocol", .text(request.protocolName)),
          ("fields", .array(fields)), ("contentLength", .whole(request.content.count)),
          ("developerToken", .text(token)), ("status", .whole(status)),
          ("faults", faults.isEmpty ? nil : .strings(faults.map(\.description))),
        ]))
    }
  }

  func clear() {
    state.withLock { $0 = State() }
  }

  var document: JSONValue {
    state.withLock { state in
      let statuses = state.statuses.sorted { $0.key < $1.key }.map { ("\($0.key)", JSONValue?.some(.whole($0.value))) }
      return ["count": .whole(state.count), "statuses": .object(of: statuses), "requests": .array(state.entries)]
    }
  }

  private static func visible(_ field: SandboxField, token: String, user: String) -> String {
    switch field.name.lowercased() {
    case "authorization": token
    case "music-user-token", "media-user-token": user
    case "cookie", "proxy-authorization", "x-api-key": "present, \(field.value.utf8.count) bytes"
    default: shortened(field.value)
    }
  }

  private static func shortened(_ text: String) -> String {
    text.utf8.count <= Limit.value ? text : "\(text.prefix(Limit.value))… (\(text.utf8.count) bytes)"
  }
}

/// The endpoints `/sandbox/faults` and `/sandbox/log`, for tests. They require no token, and the emulator does not log
/// their requests.
struct ControlEndpoint {
  let board: FaultBoard
  let meter: RateMeter
  let log: RequestLog
  /// The options that apply unless a test overrides them.
  let options: SandboxOptions

  /// Responds to a request.
  ///
  /// - Parameter segments: The segments of the whole path.
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
      "faults": .array(board.rules.map(\.document)), "clockSkew": .whole(board.clockSkew),
      "admitted": .whole(counts.admitted), "limited": .whole(counts.limited),
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

/// A generator of error identifiers in Apple's form: 26 characters of base32 (RFC 4648 §6). They differ within a run,
/// and are the same in every run.
final class ErrorIdentifiers: Sendable {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")

  private let numbers = Locked(Numbers(seed: 0x4D75_7369_63))

  func next() -> String {
    numbers.withLock { numbers in String((0..<26).map { _ in Self.alphabet[numbers.next(below: 32)] }) }
  }
}
