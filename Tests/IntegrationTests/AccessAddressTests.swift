import Bytes
import JSON
import TestSupport
import Testing

/// Callers with many addresses, real or forged.
@Suite("Client addresses")
struct AccessAddressTests {
  private static let addresses = 70_000

  /// Buckets that stay in use for a hundred seconds per request, so that no bucket is evicted for another.
  private static let rate = "rateLimit: { perSecond: 0.01, burst: 5 }"
  private static let anonymous = ["ACCESS_ANONYMOUS": "{ token: true, \(rate) }"]

  /// A server that trusts the addresses that this machine forwards.
  private static func serve(_ more: [String: String], proxies: String = "['127.0.0.1']") throws -> RunningServer {
    let settings = ["SERVER_TRUSTED_PROXIES": proxies, "SERVER_LOOPS": "2", "LOG_LEVEL": "warning"]
    return try Ground().serve(settings.merging(more) { $1 })
  }

  /// The report of `address_flood.py`.
  private struct Flood {
    let statuses: [String: Int]
    /// What one bucket may have granted: the burst, and a request for each hundred seconds that the flood took.
    let grants: ClosedRange<Int>
    /// The growth of memory after the first tenth, in KiB.
    let growth: Int

    init(_ server: RunningServer, _ kind: String, _ count: Int = addresses, _ fields: String...) throws {
      let script = [Repository.script("address_flood.py"), "\(server.port)", "\(server.process.id)", "\(count)", kind]
      let began = ContinuousClock.now
      let result = try run(Repository.python, script + fields)
      grants = 5...5 + Int((ContinuousClock.now - began) / .seconds(100)) + 1
      guard let report = JSONReader.read(result.standardOutput), let early = report["early"]?.integer,
        let late = report["late"]?.integer, let members = report["statuses"]?.members
      else { throw TestFailure("The flood ended without a report: \(result.stderr)") }
      statuses = Dictionary(uniqueKeysWithValues: members.map { ($0.name.text, $0.value.integer ?? 0) })
      growth = late - early
    }
  }

  /// The allowed growth for 63 000 more addresses, in KiB. The table of callers has at most 2 MiB,
  /// `RateLimits.callers`. It replaces a table of half that size, which the allocator may keep; one MiB is for
  /// everything else. The text of every address would take more than 4.3 MiB.
  private static let allowance = 4096

  @Test("each have their own rate limit, and 70,000 addresses need little memory")
  func many() throws {
    let directory = try TemporaryDirectory()
    let server = try Self.serve(Self.anonymous.merging(["AUDIT_FILE": directory.path(of: "audit.log")]) { $1 })
    let flood = try Flood(server, "networks")
    #expect(flood.statuses == ["200": Self.addresses])
    #expect(flood.growth < Self.allowance)
    // Once more, with a full table.
    #expect(try Flood(server, "networks", 5000).growth < 1024)
    #expect(server.stop() == 0)
  }

  @Test("within one /64 network count as one caller")
  func network() throws {
    let server = try Self.serve(Self.anonymous)
    let flood = try Flood(server, "network", 3000)
    let granted = flood.statuses["200"] ?? 0
    #expect(flood.grants.contains(granted) && flood.statuses["429"] == 3000 - granted, "\(flood.statuses)")
    #expect(flood.growth < 1024)
  }

  @Test("before the entry of the trusted proxy are ignored")
  func behind() throws {
    let server = try Self.serve(Self.anonymous)
    let flood = try Flood(server, "behind", 3000)
    #expect(flood.grants.contains(flood.statuses["200"] ?? 0), "\(flood.statuses)")
  }

  @Test("from an untrusted proxy are ignored", arguments: ["[]", "['10.0.0.0/8', '127.0.0.2']"])
  func untrusted(proxies: String) throws {
    let server = try Self.serve(Self.anonymous, proxies: proxies)
    let flood = try Flood(server, "networks", 3000)
    #expect(flood.grants.contains(flood.statuses["200"] ?? 0), "\(flood.statuses)")
    #expect(try MetricsPage(of: server)["musickit_forwarded_ignored_total"] == 3000)
  }

  @Test("with wrong keys need little memory and do not slow callers with a valid key")
  func guesses() throws {
    let clients = "[{ id: 'one', apiKey: { sha256: '\(try AccessGround.sha256("key"))' } }]"
    let server = try Self.serve(["ACCESS_CLIENTS": clients, "ACCESS_ANONYMOUS": ""])
    let flood = try Flood(server, "networks", 15_000, "X-API-Key: wrong")
    #expect(flood.statuses == ["401": 15_000])
    #expect(flood.growth < Self.allowance)
    // The guesses of one network soon get 429.
    let network = try Flood(server, "network", 5000, "X-API-Key: wrong")
    #expect((network.statuses["401"] ?? 0) >= 100)
    #expect((network.statuses["429"] ?? 0) > 2500, "\(network.statuses)")
    #expect(network.growth < 1024)
    #expect(try Flood(server, "network", 1000, "X-API-Key: key").statuses == ["200": 1000])
  }
}
