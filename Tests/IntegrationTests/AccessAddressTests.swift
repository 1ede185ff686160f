import Bytes
import JSON
import TestSupport
import Testing

/// Whoever can come from many addresses, or says so.
@Suite("Addresses", .timeLimit(.minutes(10)))
struct AccessAddressTests {
  private static let addresses = 100_000

  /// Buckets that stay in use for a hundred seconds for each request, so that none makes room for another.
  private static let rate = "rateLimit: { perSecond: 0.01, burst: 5 }"
  private static let anonymous = ["ACCESS_ANONYMOUS": "{ token: true, \(rate) }"]

  /// A server that believes this machine what it says of others.
  private static func serve(_ more: [String: String], proxies: String = "['127.0.0.1']") throws -> RunningServer {
    let settings = ["SERVER_TRUSTED_PROXIES": proxies, "SERVER_LOOPS": "2", "LOG_LEVEL": "warning"]
    return try Ground().serve(settings.merging(more) { $1 })
  }

  /// What `address_flood.py` reports.
  private struct Flood {
    let statuses: [String: Int]
    /// KiB of memory that came after the first tenth.
    let growth: Int

    init(_ server: RunningServer, _ kind: String, _ count: Int = addresses, _ fields: String...) throws {
      let script = [Repository.script("address_flood.py"), "\(server.port)", "\(server.process.id)", "\(count)", kind]
      let result = try run(Repository.python, script + fields)
      guard let report = JSONReader.read(result.standardOutput), let early = report["early"]?.integer,
        let late = report["late"]?.integer, let members = report["statuses"]?.members
      else { throw TestFailure("The flood ended without a report: \(result.stderr)") }
      statuses = Dictionary(uniqueKeysWithValues: members.map { ($0.name.text, $0.value.integer ?? 0) })
      growth = late - early
    }
  }

  /// KiB that 90 000 more addresses may cost. The table of callers is 2 MiB at its largest, `RateLimits.callers`, and
  /// grows out of one of half that size, which the allocator may keep; a MiB is for everything else. To remember as much
  /// as the text of each would be more than 6 MiB.
  private static let allowance = 4096

  @Test("of a hundred thousand callers each have a rate of their own, and cost no memory to speak of")
  func many() throws {
    let directory = try TemporaryDirectory()
    let server = try Self.serve(Self.anonymous.merging(["AUDIT_FILE": directory.path(of: "audit.log")]) { $1 })
    let flood = try Flood(server, "networks")
    #expect(flood.statuses == ["200": Self.addresses])
    #expect(flood.growth < Self.allowance)
    // And once more, with every place taken.
    #expect(try Flood(server, "networks", 20_000).growth < 1024)
    #expect(server.stop() == 0)
  }

  @Test("within one network of /64 are one caller")
  func network() throws {
    let server = try Self.serve(Self.anonymous)
    let flood = try Flood(server, "network")
    // One more comes in a hundred seconds.
    #expect((5...6).contains(flood.statuses["200"] ?? 0), "\(flood.statuses)")
    #expect(flood.statuses["429"] == Self.addresses - (flood.statuses["200"] ?? 0))
    #expect(flood.growth < 1024)
  }

  @Test("that a client makes up before its proxy appends the true one are none")
  func behind() throws {
    let server = try Self.serve(Self.anonymous)
    let flood = try Flood(server, "behind", 10_000)
    #expect((5...6).contains(flood.statuses["200"] ?? 0), "\(flood.statuses)")
  }

  @Test("that somebody tells who is not trusted are none", arguments: ["[]", "['10.0.0.0/8', '127.0.0.2']"])
  func untrusted(proxies: String) throws {
    let server = try Self.serve(Self.anonymous, proxies: proxies)
    let flood = try Flood(server, "networks", 10_000)
    #expect((5...6).contains(flood.statuses["200"] ?? 0), "\(flood.statuses)")
    #expect(try MetricsPage(of: server)["musickit_forwarded_ignored_total"] == 10_000)
  }

  @Test("from which guesses come, each its own, cost no memory to speak of, and slow nobody who has a right one")
  func guesses() throws {
    let clients = "[{ id: 'one', apiKey: { sha256: '\(try AccessGround.sha256("key"))' } }]"
    let server = try Self.serve(["ACCESS_CLIENTS": clients, "ACCESS_ANONYMOUS": ""])
    let flood = try Flood(server, "networks", Self.addresses, "X-API-Key: wrong")
    #expect(flood.statuses == ["401": Self.addresses])
    #expect(flood.growth < Self.allowance)
    // Those of one network are told to slow down.
    let network = try Flood(server, "network", 20_000, "X-API-Key: wrong")
    #expect((network.statuses["401"] ?? 0) >= 100)
    #expect((network.statuses["429"] ?? 0) > 10_000, "\(network.statuses)")
    #expect(network.growth < 1024)
    #expect(try Flood(server, "network", 1000, "X-API-Key: key").statuses == ["200": 1000])
  }
}
