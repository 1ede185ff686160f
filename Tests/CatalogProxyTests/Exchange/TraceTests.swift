import HTTP1
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing
import Tracing

@testable import CatalogProxy

@Suite("The trace of a catalog request")
struct TraceTests {
  private static let song = "/v1/catalog/us/songs/1"

  private static func sent(to ground: ProxyGround) -> [String] {
    ground.upstream.requests.map { $0.fields[HTTPField.Name.literal("traceparent")] ?? "" }
  }

  @Test("is that of the caller that began the request, if callers of several traces share it")
  func flight() async throws {
    let gate = Gate()
    gate.isShut = true
    let ground = ProxyGround { _ in
      await gate.pass()
      return .scripted()
    }
    var generator = TraceIDGenerator()
    let traces = (0..<8).map { _ in RequestTrace(generator.next()) }
    var tasks: [Task<CatalogReply, Never>] = []
    for (index, trace) in traces.enumerated() {
      let call = try ground.call(Self.song, span: trace.context())
      tasks.append(Task { await ground.respond(call) })
      try await until("the caller waits") {
        ground.upstream.requests.count == 1 && ground.proxy.status.counts.collapsed == index
      }
    }
    gate.isShut = false
    for task in tasks { #expect(await task.value.status == 200) }
    let sent = Self.sent(to: ground)
    #expect(sent.count == 1)
    #expect(sent[0].contains("-\(traces[0].traceID)-"))
    #expect(!sent[0].contains("-\(traces[0].spanID)-"))
  }

  @Test("is not sent for a call without a trace")
  func absent() async throws {
    let ground = ProxyGround { _ in .scripted() }
    _ = try await ground.ask(Self.song)
    #expect(Self.sent(to: ground) == [""])
  }
}
