import Glibc
import Testing

@testable import Telemetry

@Suite("The failure watch of the audit file")
struct FailureWatchTests {
  static let failing = "The server cannot write the audit file '/a': No space left on device."

  static func recovered(_ lost: Int) -> String {
    "The server can write the audit file '/a' again. Records lost: \(lost)."
  }

  @Test("reports a failure once, and reports the recovery with the number of lost lines")
  func once() {
    var watch = FailureWatch(path: "/a")
    #expect(watch.note(error: 0, lostLines: 0, now: 0) == nil)
    #expect(watch.note(error: ENOSPC, lostLines: 3, now: 1) == Self.failing)
    #expect(watch.note(error: ENOSPC, lostLines: 4, now: 2) == nil)
    #expect(watch.note(error: ENOSPC, lostLines: 5, now: 1 << 60) == nil)
    #expect(watch.note(error: 0, lostLines: 0, now: 1 << 61) == Self.recovered(12))
    #expect(watch.note(error: 0, lostLines: 0, now: 1 << 61) == nil)
  }

  @Test("reports a flapping disk at most every ten seconds and counts every lost line")
  func flapping() {
    var watch = FailureWatch(path: "/a")
    var notices: [String] = []
    for step in 0..<2000 as Range<UInt64> {
      let error = step.isMultiple(of: 2) ? ENOSPC : 0
      if let notice = watch.note(error: error, lostLines: error == 0 ? 0 : 1, now: step * 10_000_000) {
        notices.append(notice)
      }
    }
    #expect(
      notices == [
        Self.failing, Self.recovered(1), Self.failing, Self.recovered(500),
      ])
  }
}
