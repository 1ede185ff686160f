import HTTP1
import Testing

@Suite("HTTP dates")
struct HTTPDateTests {
  private func text(_ seconds: Int) -> String {
    var output: [UInt8] = []
    HTTPDate(secondsSinceEpoch: seconds).append(to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  @Test(
    "are written as IMF-fixdate",
    arguments: [
      (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
      (86399, "Thu, 01 Jan 1970 23:59:59 GMT"),
      (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
      (68_169_599, "Mon, 28 Feb 1972 23:59:59 GMT"),
      (68_169_600, "Tue, 29 Feb 1972 00:00:00 GMT"),
      (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
      (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
      (978_307_199, "Sun, 31 Dec 2000 23:59:59 GMT"),
      (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
      (1_740_787_199, "Fri, 28 Feb 2025 23:59:59 GMT"),
      (1_740_787_200, "Sat, 01 Mar 2025 00:00:00 GMT"),
      (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
      (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
      (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ])
  func format(seconds: Int, expected: String) {
    #expect(text(seconds) == expected)
  }

  @Test("outside the range of the format are clamped")
  func clamping() {
    #expect(text(-1) == text(0))
    #expect(text(.min) == text(0))
    #expect(text(.max) == "Fri, 31 Dec 9999 23:59:59 GMT")
  }

  @Test("have the right date and weekday through four centuries")
  func calendar() {
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    var day = 0
    for year in 1970..<2370 {
      let isLeap = year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
      for (month, length) in zip(months, [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        for date in [1, length] {
          let padded = date < 10 ? "0\(date)" : "\(date)"
          let weekday = weekdays[(day + date - 1) % 7]
          #expect(text((day + date - 1) * 86400) == "\(weekday), \(padded) \(month) \(year) 00:00:00 GMT")
        }
        day += length
      }
    }
  }
}
