import Glibc

/// The CPU time of an operation, from the fastest of several runs, because that run was disturbed least.
struct Measurement {
  private static let runs = 7
  private static let secondsPerRun = 0.2

  let name: String
  let nanoseconds: Double

  /// Measures `work`. Its result keeps the compiler from removing the call.
  init(_ name: String, _ work: () throws -> Int) rethrows {
    var count = 1
    while try Self.seconds(count, work) < Self.secondsPerRun / 8 { count *= 2 }
    count *= 8
    var best = Double.infinity
    for _ in 0..<Self.runs { best = try min(best, Self.seconds(count, work) / Double(count)) }
    self.name = name
    nanoseconds = best * 1e9
  }

  private static func seconds(_ count: Int, _ work: () throws -> Int) rethrows -> Double {
    let start = now
    var sum = 0
    for _ in 0..<count { sum &+= try work() }
    precondition(sum != .min)
    return now - start
  }

  /// The CPU time of this thread in seconds.
  private static var now: Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
  }
}
