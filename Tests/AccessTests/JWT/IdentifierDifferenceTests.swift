import Bytes
import Testing

@testable import Access

@Suite("A difference between identifiers")
struct IdentifierDifferenceTests {
  @Test(
    "has a name if the eye passes over it",
    arguments: [
      ("https://id.example.com", "https://id.example.com", nil),
      ("https://id.example.com/", "https://id.example.com", "only by a slash at the end"),
      ("https://id.example.com//", "https://id.example.com", "only by slashes at the end"),
      ("https://ID.example.com", "https://id.example.com", "only by upper and lower case"),
      ("HTTPS://id.example.com", "https://id.example.com", "only by upper and lower case"),
      ("http://id.example.com", "https://id.example.com", "only by http:// in place of https://"),
      ("accounts.google.com", "https://accounts.google.com", "only by https:// at the beginning, which one lacks"),
      (
        "http://id.example.com/Realms/a/", "https://id.example.com/realms/a",
        "only by http:// in place of https:// and by a slash at the end and by upper and lower case"
      ),
      ("Music", "music", "only by upper and lower case"), ("music/", "music", "only by a slash at the end"),
      ("https://login.example.com/t/v2.0", "https://login.example.com/t/", nil),
      ("https://id.example.com/a", "https://id.example.com/b", nil), ("music", "music2", nil), ("", "music", nil),
      // Unicode equivalence and other cases than ASCII's are no differences that bytes have in common.
      ("\u{212A}", "K", nil), ("É", "é", nil), ("https://", "", "only by https:// at the beginning, which one lacks"),
    ] as [(String, String, String?)])
  func named(_ one: String, _ other: String, _ difference: String?) {
    #expect(IdentifierDifference(ByteString(one), ByteString(other))?.description == difference)
    #expect(IdentifierDifference(ByteString(other), ByteString(one))?.description == difference)
  }
}
