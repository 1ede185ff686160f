import Bytes
import HTTP1
import HTTPServer
import JSON
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("The OpenAPI document")
struct OpenAPITests {
  private static let key = String(repeating: "0123456789abcdef", count: 4)
  private static let me = ["CATALOG_ME": "true"]

  private static func document(_ environment: [String: String] = [:], unsafeAllow: Bool = false) throws -> JSONValue {
    let generation = try GenerationFixture.make(environment, unsafeAllow: unsafeAllow)
    return try #require(JSONReader.read(generation.routers().openAPI.document))
  }

  @Test(
    "lists exactly the paths and methods of the router",
    arguments: [[:], me, ["CATALOG_ENABLED": "false"]])
  func paths(_ environment: [String: String]) throws {
    let generation = try GenerationFixture.make(environment)
    let routers = generation.routers()
    let document = try #require(JSONReader.read(routers.openAPI.document))
    let names: [RequestHead.Method: String] = [
      .get: "get", .post: "post", .put: "put", .patch: "patch", .delete: "delete",
    ]
    let served = routers.public.patterns.flatMap { pattern in
      pattern.methods.map { "\(names[$0] ?? "?") \(pattern.path)" }
    }
    let described = try #require(document["paths"]).members.flatMap { path in
      path.value.members.map { "\($0.name) \(path.name)" }
    }
    #expect(served.sorted() == described.sorted())
    #expect(Set(served).count == served.count)
    #expect(described.contains { $0.hasSuffix(" /v1/me/library/{path}") } == (environment == Self.me))
    #expect(described.contains { $0.hasPrefix("get /v1/") } == (environment["CATALOG_ENABLED"] == nil))
    #expect(described.contains("get /openapi.json"))
  }

  @Test("describes a route without a written description")
  func unknown() throws {
    let settings = try GenerationFixture.make().settings
    let openAPI = OpenAPI([RoutePattern("/new/{thing}", [.get, .delete])], of: settings)
    let document = try #require(JSONReader.read(openAPI.document))
    let item = try #require(document["paths"]?["/new/{thing}"])
    #expect(item.members.map(\.name) == ["get", "delete"])
    guard case .array(let parameters)? = item["get"]?["parameters"] else {
      Issue.record("no parameters")
      return
    }
    #expect(parameters.first?["name"] == .string("thing"))
  }

  @Test("has no dangling reference and no duplicate operationId")
  func references() throws {
    let document = try Self.document(Self.me)
    var identifiers: [String] = []
    func visit(_ value: JSONValue) {
      switch value {
      case .object(let members):
        for member in members {
          if member.name == "$ref", case .string(let text) = member.value {
            let target = text.text.split(separator: "/").dropFirst().reduce(document as JSONValue?) { $0?[String($1)] }
            #expect(target != nil, "\(text)")
          }
          if member.name == "operationId", case .string(let text) = member.value { identifiers.append(text.text) }
          visit(member.value)
        }
      case .array(let elements): elements.forEach(visit)
      default: break
      }
    }
    visit(document)
    #expect(identifiers.count > 30 && Set(identifiers).count == identifiers.count)
  }

  @Test(
    "gives the maximum and the default of the granted lifetimes",
    arguments: [
      ([:], 86_400, 43_200), (["TOKEN_MAX_TTL": "2d"], 172_800, 43_200), (["TOKEN_TTL": "30d"], 2_592_000, 2_592_000),
      (["ACCESS_ANONYMOUS_TTL": "1h"], 3600, 3600),
      (
        ["ACCESS_ANONYMOUS_TTL": "1h", "ACCESS_CLIENTS": "[{ id: 'a', apiKey: { sha256: '\(key)' } }]"], 86_400, 43_200
      ),
    ] as [([String: String], Int, Int)])
  func lifetime(_ environment: [String: String], _ maximum: Int, _ usual: Int) throws {
    let lifetime = try #require(try Self.document(environment)["components"]?["schemas"]?["Lifetime"])
    #expect(lifetime["minimum"] == .number("60"))
    #expect(lifetime["maximum"] == .number("\(maximum)"))
    #expect(lifetime["default"] == .number("\(usual)"))
  }

  @Test(
    "lists the security schemes of the clients' credentials",
    arguments: [
      ("", true, []), ("{ id: 'a', origins: ['https://a.example'] }", true, []),
      ("{ id: 'a', apiKey: { sha256: '\(key)' } }", false, ["bearer", "apiKey"]),
      ("{ id: 'a', jwt: { issuer: 'i', audience: 'a', jwksURL: 'https://a.example/' } }", false, ["bearer"]),
    ] as [(String, Bool, [String])])
  func security(_ client: String, _ isOpen: Bool, _ schemes: [String]) throws {
    // Without a client, the settings must allow anonymous callers.
    let environment = ["ACCESS_CLIENTS": "[\(client)]", "ACCESS_ANONYMOUS": "{ token: true }"]
    let settings = try SettingsFixture().load(environment).settings
    var access = settings.access
    if !client.isEmpty { access.anonymous = nil }
    var changed = settings
    changed.access = access
    let document = try #require(JSONReader.read(OpenAPI([RoutePattern("/token")], of: changed).document))
    #expect(document["components"]?["securitySchemes"]?.members.map(\.name.text) ?? [] == schemes)
    guard case .array(let alternatives)? = document["security"] else {
      Issue.record("no security")
      return
    }
    #expect(alternatives.flatMap { $0.members.map(\.name.text) } == schemes)
    #expect(alternatives.contains(.object([])) == isOpen)
  }

  @Test("describes 421 only if the server checks host names")
  func hosts() throws {
    func has421(_ document: JSONValue) -> Bool { document["paths"]?["/token"]?["get"]?["responses"]?["421"] != nil }
    #expect(has421(try Self.document()))
    #expect(has421(try Self.document(["SERVER_HOST": "*"])))
    #expect(!has421(try Self.document(["SERVER_UNIX_SOCKET": "/tmp/s"])))
    #expect(has421(try Self.document(["SERVER_HOST": "*", "SERVER_HOSTS": "['a.example']"])))
    #expect(!has421(try Self.document(unsafeAllow: true)))
  }
}
