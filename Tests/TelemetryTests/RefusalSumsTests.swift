import Testing

@testable import Telemetry

@Suite("Refusals of one address")
struct RefusalSumsTests {
  @Test("have a line each, up to a number in a second, and then one with their sum")
  func sum() {
    var sums = RefusalSums()
    var lines = 0
    for number in 0..<1000 {
      let (hasLine, isFirst) = sums.count("192.0.2.1", isLimited: number % 10 == 0)
      #expect(isFirst == (number == 0))
      if hasLine { lines += 1 }
      if number < 3 { #expect(sums.count("192.0.2.2", isLimited: false).hasLine) }
    }
    #expect(lines == RefusalSums.lines)
    #expect(sums.take() == [.init(address: "192.0.2.1", refused: 810, limited: 90)])
    #expect(sums.take().isEmpty)
    #expect(sums.count("192.0.2.1", isLimited: false) == (true, true), "another second")
  }

  @Test("of more addresses than the server counts are summed up together")
  func addresses() {
    var sums = RefusalSums()
    for number in 0..<RefusalSums.addresses { _ = sums.count("\(number)", isLimited: false) }
    let lines = (0..<300).count { sums.count("more \($0)", isLimited: false).hasLine }
    #expect(lines == RefusalSums.lines)
    #expect(sums.take() == [.init(address: "other", refused: 300 - RefusalSums.lines)])
  }

  @Test("are one line of the audit log")
  func line() {
    var bytes: [UInt8] = []
    RefusalSums.Sum(address: "2001:db8::", refused: 7, limited: 2).append(
      to: &bytes, format: .json, time: LineTime(milliseconds: 0))
    #expect(
      String(decoding: bytes, as: UTF8.self)
        == #"{"time":"1970-01-01T00:00:00.000Z","level":"info","message":"audit","audit.event":"refusals_summed_up","#
        + #""client.address":"2001:db8::","audit.refused":7,"audit.limited":2}"# + "\n")
  }
}
