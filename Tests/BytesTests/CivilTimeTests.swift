import Bytes
import Testing

@Suite("A time in UTC") struct CivilTimeTests {
  @Test(
    "has the text of RFC 3339, which reads as the same time",
    arguments: [
      (0, "1970-01-01T00:00:00Z"), (951_782_400, "2000-02-29T00:00:00Z"), (1_795_000_000, "2026-11-18T11:06:40Z"),
      (253_402_300_799, "9999-12-31T23:59:59Z"),
    ])
  func text(_ seconds: Int, _ text: String) {
    #expect(CivilTime(secondsSinceEpoch: seconds).description == text)
    #expect(CivilTime(text)?.secondsSinceEpoch == seconds)
  }

  @Test(
    "refuses other texts",
    arguments: [
      "", "2026-12-01", "2026-12-01T09:00:00", "2026-12-01T09:00:00z", "2026-12-01 09:00:00Z", "2026-02-30T00:00:00Z",
      "2026-13-01T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T09:60:00Z", "2026-12-01T09:00:60Z",
      "2026-12-01T09:00:00+01:00", "1969-12-31T23:59:59Z", "+026-12-01T09:00:00Z", "２０26-12-01T09:00Z",
      "2026-1a-01T09:00:00Z", "99999-12-01T09:00:0Z",
    ])
  func refused(_ text: String) {
    #expect(CivilTime(text) == nil)
  }
}
