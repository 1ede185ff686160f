import Bytes
import DeveloperToken
import EventLoop
import HTTPMessages
import HTTPTypes
import JSON
import Locks
import TestSupport

@testable import MusicSandbox

/// An emulator with a stopped clock, a trusted key, and a valid token.
final class Ground: Sendable {
  static let now = 1_795_000_000
  static let userToken = "sandbox-user-token"

  /// Made once, because generating a key takes most of a test's time.
  static let key = Result { try SigningKey.generate(keyID: try KeyID("ABC123DEFG")) }

  let sandbox: Sandbox
  let clock = ManualClock()
  let key: SigningKey
  let token: String

  init(_ change: (inout SandboxOptions) -> Void = { _ in }) throws {
    key = try Self.key.get()
    let team = try TeamID("TEAM123456")
    var options = SandboxOptions(keys: [TrustedKey(team: team, key: key)])
    change(&options)
    let clock = clock
    sandbox = Sandbox(options, clock: SandboxClock(seconds: { clock.seconds }, now: { clock.now }))
    let minter = try TokenMinter(key: key, team: team, policy: TokenPolicy())
    token = try minter.token(now: Self.now).string
  }

  /// The response to a request with a valid token, unless `fields` contains another token.
  func respond(
    _ target: String, _ method: String = "GET", fields: [HTTPField] = [], user: String? = nil, content: String = ""
  ) -> SandboxResponse {
    var all = fields
    if !all.contains(where: { $0.name == .authorization }) {
      all.append(field("Authorization", "Bearer \(token)"))
    }
    if let user { all.append(field("Music-User-Token", user)) }
    let halves = target.split(separator: "?", maxSplits: 1).map(String.init)
    return sandbox.respond(
      SandboxRequest(
        method, halves[0], query: halves.count == 2 ? halves[1] : nil, authority: "localhost:8081",
        fields: HTTPFields(all), content: Array(content.utf8)))
  }

  /// The JSON of a response whose status must be 200.
  func json(_ target: String, user: String? = nil) throws -> JSONValue {
    let response = respond(target, user: user)
    guard response.status == 200 else {
      throw TestFailure("\(target): \(response.status) \(String(decoding: response.content, as: UTF8.self))")
    }
    return try response.json
  }
}

/// A clock that moves only with `advance`.
final class ManualClock: Sendable {
  private let milliseconds = Locked<UInt64>(1_000_000)

  let seconds = Ground.now
  var now: Deadline { milliseconds.withLock { Deadline(nanoseconds: $0 * 1_000_000) } }

  func advance(milliseconds count: Int) {
    milliseconds.withLock { $0 += UInt64(count) }
  }
}

func field(_ name: StaticString, _ value: String) -> HTTPField { HTTPField(name: .literal(name), value: value) }

extension HTTPFields {
  func values(of name: StaticString) -> [String] { self[values: .literal(name)] }
  func single(_ name: StaticString) -> String? { single(.literal(name)) }
}

extension SandboxResponse {
  var json: JSONValue {
    get throws {
      guard let value = JSONReader.read(content) else {
        throw TestFailure("This is no JSON: \(String(decoding: content, as: UTF8.self))")
      }
      return value
    }
  }

  /// The code of the first error object.
  var errorCode: String? {
    get throws { try json["errors"]?.elements.first?["code"]?.text }
  }
}

extension JSONValue {
  var text: String? {
    guard case .string(let text) = self else { return nil }
    return text.text
  }

  var number: Int? {
    guard case .number(let text) = self else { return nil }
    return Int(text)
  }

  /// The value at a path of names and array indices, separated by dots: `data.0.attributes.name`.
  func at(_ path: String) -> JSONValue? {
    path.split(separator: ".").reduce(Optional(self)) { value, part in
      if let index = Int(part), let elements = value?.elements, !elements.isEmpty {
        return index < elements.count ? elements[index] : nil
      }
      return value?[String(part)]
    }
  }

  /// The identifiers of the resources in `data`.
  var ids: [String] { self["data"]?.elements.compactMap { $0["id"]?.text } ?? [] }
}
