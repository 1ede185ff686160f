import DequeModule
import HTTPTypes
import JSON
import Locks

/// A log of the last requests, so that a test sees what a proxy sent to “Apple”. It contains no credentials.
final class RequestLog: Sendable {
  /// The maximum number of requests, of fields in a request, and of bytes in a value.
  static let most = (requests: 256, fields: 64, value: 512)

  private let state = Locked(State())

  private struct State {
    var entries: Deque<JSONValue> = []
    var count = 0
    var statuses: [Int: Int] = [:]
  }

  /// Notes a request, with texts that replace its developer token and its music user token.
  func note(_ request: SandboxRequest, token: String, user: String, _ response: SandboxResponse) {
    let fields = request.fields.prefix(Self.most.fields).map { field -> JSONValue in
      let text =
        switch field.name.canonicalName {
        case "authorization": token
        case "music-user-token", "media-user-token": user
        case "cookie", "proxy-authorization", "x-api-key": "present, \(field.value.utf8.count) bytes"
        default: Self.shortened(field.value)
        }
      return ["name": .text(field.name.rawName), "value": .text(text)]
    }
    let faults = response.faults.map(\.description)
    state.withLock { state in
      state.count += 1
      state.statuses[response.status, default: 0] += 1
      if state.entries.count == Self.most.requests { state.entries.removeFirst() }
      state.entries.append(
        .object(of: [
          ("number", .whole(state.count)), ("method", .text(request.method)),
          ("path", .text(Self.shortened(request.path))), ("query", request.query.map { .text(Self.shortened($0)) }),
          ("authority", .text(request.authority)), ("protocol", .text(request.protocolName)),
          ("fields", .array(fields)), ("contentLength", .whole(request.content.count)),
          ("developerToken", .text(token)), ("status", .whole(response.status)),
          ("faults", faults.isEmpty ? nil : .strings(faults)),
        ]))
    }
  }

  func clear() { state.withLock { $0 = State() } }

  var document: JSONValue {
    state.withLock { state in
      let statuses = state.statuses.sorted { $0.key < $1.key }.map { ("\($0.key)", JSONValue?.some(.whole($0.value))) }
      let requests = JSONValue.array(Array(state.entries))
      return ["count": .whole(state.count), "statuses": .object(of: statuses), "requests": requests]
    }
  }

  private static func shortened(_ text: String) -> String {
    text.utf8.count <= Self.most.value ? text : "\(text.prefix(Self.most.value))… (\(text.utf8.count) bytes)"
  }
}
