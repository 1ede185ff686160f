import EventLoop
import Testing

@testable import HTTPServer

@Suite struct LatenessTests {
  private static let limits = ServerLimits()

  /// Work that arrives every `interval` and has waited for `delay`: whether each was admitted.
  private func admissions(
    of delay: Duration, every interval: Duration = .milliseconds(10), for time: Duration, to lateness: inout Lateness,
    from start: inout Deadline
  ) -> [Bool] {
    var admissions: [Bool] = []
    let end = start.advanced(by: time)
    while start < end {
      admissions.append(lateness.admits(delay, at: start, limits: Self.limits))
      start = start.advanced(by: interval)
    }
    return admissions
  }

  @Test("prompt work is always done")
  func prompt() {
    var lateness = Lateness()
    var now = Deadline.now
    let admissions = admissions(of: .milliseconds(20), for: .seconds(10), to: &lateness, from: &now)
    #expect(admissions.allSatisfy { $0 })
  }

  @Test("late work of a burst is done, however late it is")
  func burst() {
    var lateness = Lateness()
    var now = Deadline.now
    for _ in 0..<10 {
      let admissions = admissions(of: .seconds(3), for: Self.limits.burst, to: &lateness, from: &now)
      #expect(admissions.allSatisfy { $0 })
      _ = lateness.admits(.zero, at: now, limits: Self.limits)
    }
  }

  @Test("in a standing queue only work that has waited for a short time is done, until some is prompt again")
  func standing() {
    var lateness = Lateness()
    var now = Deadline.now
    _ = admissions(of: .milliseconds(101), for: Self.limits.burst, to: &lateness, from: &now)
    let delays: [(milliseconds: Int, isDone: Bool)] = [
      (151, false), (150, true), (3000, false), (100, true), (3000, true),
    ]
    for (milliseconds, isDone) in delays {
      let isAdmitted = lateness.admits(.milliseconds(milliseconds), at: now, limits: Self.limits)
      #expect(isAdmitted == isDone, "\(milliseconds) ms")
    }
  }

  @Test("rare work is no queue, even if each of it is late")
  func rare() {
    var lateness = Lateness()
    var now = Deadline.now
    let admissions = admissions(
      of: .seconds(3), every: Self.limits.burst + .milliseconds(100), for: .seconds(60), to: &lateness, from: &now)
    #expect(admissions.allSatisfy { $0 })
  }
}
