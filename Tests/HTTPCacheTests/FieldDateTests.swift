import HTTP1
import Testing

@testable import HTTPCache

@Suite("An HTTP-date")
struct FieldDateTests {
  /// The example of RFC 9110 §5.6.7 in its three forms, and edges of the calendar.
  static let dates: [(text: String, seconds: Int)] = [
    ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
    ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
    ("Sun Nov  6 08:49:37 1994", 784_111_777),
    ("Wed Nov 16 08:49:37 1994", 784_975_777),
    ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
    ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000),
    ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
    ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
    ("Tuesday, 01-Jan-30 00:00:00 GMT", 1_893_456_000),
  ]

  @Test("is read in all three forms", arguments: dates)
  func readable(text: String, seconds: Int) {
    #expect(FieldDate.seconds(text, now: Sample.start) == seconds)
  }

  @Test(
    "in any other form is refused",
    arguments: [
      "0", "", "-1", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC",
      "Sun, 6 Nov 1994 08:49:37 GMT",
      "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
      "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 32 Nov 1994 08:49:37 GMT",
      "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 1994 08.49.37 GMT",
      "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun, 06  Nov 1994 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT",
      "1994-11-06T08:49:37.0000000Z",
    ])
  func unreadable(text: String) {
    #expect(FieldDate.seconds(text, now: Sample.start) == nil)
  }

  @Test("that the serializer writes is read back, for days of four centuries")
  func roundTrip() {
    for day in stride(from: 0, to: 146_097 * 86_400, by: 86_400 + 1) {
      var bytes: [UInt8] = []
      HTTPDate(secondsSinceEpoch: day).append(to: &bytes)
      #expect(FieldDate.seconds(String(decoding: bytes, as: UTF8.self), now: 0) == day)
    }
  }
}
