import Bytes
import HTTP1
import JSON
import Testing

@testable import MusicSandbox

@Suite struct FaultTests {
  private static let album = "/v1/catalog/us/albums/1200868601"

  @Test(
    "the parser reads each form of a fault",
    arguments: [
      ("delay=2s", [Fault.Kind.delay], [2000]), ("delay=250ms", [.delay], [250]), ("delay=600s", [.delay], [600_000]),
      ("status=503,delay=1s", [.status, .delay], [503, 1000]), ("huge=10", [.huge], [10]),
      ("redirect=/v1/test", [.redirect], [0]), ("reset", [.reset], [0]), ("empty-401", [.unauthorized], [0]),
    ])
  func parse(text: String, kinds: [Fault.Kind], numbers: [Int]) throws {
    let faults = try #require(Fault.parse(text))
    #expect(faults.map(\.kind) == kinds && faults.map(\.number) == numbers)
    #expect(faults.map(\.description).joined(separator: ",") == text)
  }

  @Test(
    "the parser rejects a malformed fault",
    arguments: [
      "", ",", "delay", "delay=2", "delay=-1s", "delay=601s", "delay=99999999999999999999s", "status=200", "status=x",
      "reset=1", "slow=0", "huge=99999999999", "nonsense", "status=+503", "delay=1s,",
    ])
  func noFault(text: String) {
    #expect(Fault.parse(text) == nil)
  }

  @Test("a request selects a fault with a header field or a query parameter")
  func asked() throws {
    let ground = try Ground()
    #expect(ground.respond(Self.album, fields: [field("x-sandbox-fault", "status=503")]).status == 503)
    #expect(ground.respond("\(Self.album)?sandbox[fault]=status%3D500").status == 500)
    #expect(ground.respond("\(Self.album)?sandbox%5Bfault%5D=rate-limit").status == 429)
    #expect(try ground.respond("\(Self.album)?sandbox[fault]=nonsense").errorCode == "40005")
    #expect(try ground.respond(Self.album, fields: [field("X-Sandbox-Fault", "reset=1")]).errorCode == "40005")
    #expect(ground.respond(Self.album).status == 200)
  }

  @Test("a fault changes the response or its delivery")
  func effects() throws {
    let ground = try Ground()
    func respond(_ fault: String) -> SandboxResponse {
      ground.respond(Self.album, fields: [field("X-Sandbox-Fault", fault)])
    }
    let whole = respond("delay=2s,slow=10,goaway")
    #expect(whole.status == 200)
    #expect(whole.delay == .seconds(2) && whole.faults.map(\.kind) == [.delay, .slow, .goaway])
    #expect(respond("empty-401") == respond("empty-401") && respond("empty-401").content == [])
    #expect(respond("huge=1000000").status == 200 && respond("huge=1000000").content == [])
    #expect(respond("redirect").fields.single("location") == "https://music.example/elsewhere")
    #expect(respond("set-cookie").fields.values(of: "set-cookie").count == 2)
    #expect(respond("status=503,delay=1s").delay == .seconds(1))
    #expect(try respond("status=503").errorCode == "50300")
  }

  @Test("a rule applies to the given number of matching requests")
  func rules() throws {
    let ground = try Ground()
    let order = """
      {"faults":[{"fault":"status=503","path":"/v1/catalog/us/albums","count":2},
                 {"fault":"status=500","path":"/v1/","query":"term=khalid"}]}
      """
    #expect(ground.respond("/sandbox/faults", "PUT", content: order).status == 200)
    #expect(ground.respond("/v1/test").status == 200)
    #expect((0..<3).map { _ in ground.respond(Self.album).status } == [503, 503, 200])
    #expect(ground.respond("/v1/catalog/us/search?term=khalid").status == 500)
    let rules = try ground.json("/sandbox/faults")
    #expect(rules.at("faults.0.remaining") == .number("0"))
    #expect(rules.at("faults.0.fault") == .string("status=503"))
    #expect(rules.at("faults.0.hits") == .number("2"))
    #expect(rules.at("faults.1.hits") == .number("1"))
    #expect(ground.respond("/sandbox/faults", "DELETE").status == 200)
    #expect(ground.respond("/v1/catalog/us/search?term=khalid").status == 200)
  }

  @Test("PUT sets a rate and a clock skew, and DELETE resets both")
  func rateAndClock() throws {
    let ground = try Ground()
    _ = ground.respond("/sandbox/faults", "PUT", content: #"{"rate":{"perSecond":1,"burst":1},"clockSkew":30}"#)
    #expect((0..<2).map { _ in ground.respond("/v1/test").status } == [200, 429])
    #expect(ground.respond("/v1/test").fields.single("date") == HTTPDate.text(Ground.now + 30))
    _ = ground.respond("/sandbox/faults", "DELETE")
    #expect((0..<2).map { _ in ground.respond("/v1/test").status } == [200, 200])
    #expect(ground.respond("/v1/test").fields.single("date") == nil)
  }

  @Test(
    "an invalid order changes nothing",
    arguments: [
      "", "[]", #"{"faults":{}}"#, #"{"faults":[{"fault":"nonsense"}]}"#, #"{"faults":[{}]}"#, #"{"other":1}"#,
      #"{"faults":[{"fault":"reset","count":0}]}"#, #"{"clockSkew":1.5}"#, #"{"rate":{"perSecond":0,"burst":1}}"#,
    ])
  func badOrder(content: String) throws {
    let ground = try Ground()
    _ = ground.respond("/sandbox/faults", "PUT", content: #"{"faults":[{"fault":"status=503"}]}"#)
    #expect(ground.respond("/sandbox/faults", "PUT", content: content).status == 400)
    #expect(ground.respond("/v1/test").status == 503)
  }

  @Test("the faults and the delay of the options apply to every request")
  func standing() throws {
    let faults = try #require(Fault.parse("status=503"))
    let ground = try Ground {
      $0.faults = faults
      $0.latency = .milliseconds(5)
    }
    #expect(ground.respond("/v1/test").status == 503)
    #expect(ground.respond("/v1/test").delay == .milliseconds(5))
  }
}
