import Testing

@testable import HTTPCache

@Suite("Cache-Status")
struct CacheStatusTests {
  private static func status(
    _ handling: CacheStatus.Handling, ttl: Int? = nil, _ change: (inout CacheStatus) -> Void = { _ in }
  ) -> CacheStatus {
    var status = CacheStatus(handling, timeToLive: ttl)
    change(&status)
    return status
  }

  static let values: [(status: CacheStatus, value: String)] = [
    (status(.hit), "hit"),
    (status(.hit, ttl: 123), "hit; ttl=123"),
    (status(.hit, ttl: -30), "hit; ttl=-30"),
    (status(.forwarded(.uriMiss)) { $0.isStored = true }, "fwd=uri-miss; stored"),
    (status(.forwarded(.varyMiss)) { $0.isCollapsed = true }, "fwd=vary-miss; collapsed"),
    (status(.forwarded(.stale)) { $0.forwardStatus = 304 }, "fwd=stale; fwd-status=304"),
    (status(.forwarded(.request), ttl: .max), "fwd=request; ttl=999999999999999"),
    (status(.forwarded(.bypass)) { $0.detail = "say \"a\\b\"" }, #"fwd=bypass; detail="say \"a\\b\"""#),
    (status(.forwarded(.method)) { $0.detail = "a\r\nb\u{e9}" }, #"fwd=method; detail="a??b?""#),
  ]

  @Test("describes the handling of a request as a structured field", arguments: values)
  func value(status: CacheStatus, value: String) {
    #expect(status.fieldValue == "musickit-token-server; " + value)
  }

  @Test("has room for the longest values, each character escaped")
  func longest() {
    for reason in ForwardReason.allCases {
      var status = CacheStatus(.forwarded(reason), timeToLive: .min)
      (status.forwardStatus, status.isStored, status.isCollapsed) = (.max, true, true)
      status.detail = String(repeating: "\"", count: 1000)
      #expect(status.fieldValue.utf8.count > 2000 + 80)
      status.detail = nil
      #expect(status.fieldValue.utf8.count < status.mostBytes - "; detail=\"\"".utf8.count)
    }
  }

  @Test("has the reasons of RFC 9211 §2.2")
  func reasons() {
    #expect(
      Set(ForwardReason.allCases.map(\.rawValue))
        == ["bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale"])
  }
}
