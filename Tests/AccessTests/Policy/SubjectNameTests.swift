import Testing

@testable import Access

@Suite("A name of a certificate")
struct SubjectNameTests {
  @Test(
    "has the kind that its form shows",
    arguments: [
      ("spiffe://example.com/partner", SubjectName.uri("spiffe://example.com/partner")),
      ("urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", .uri("urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6")),
      ("Partner.Example.com", .dns("partner.example.com")),
      ("ops@example.com", .email("ops@example.com")),
    ])
  func kinds(_ text: String, _ name: SubjectName) {
    #expect(SubjectName(text) == name)
  }

  @Test(
    "that is invalid is refused",
    arguments: ["", "*.example.com", "a b", "partner\u{0}.example.com", "päckchen.example", "CN=partner"])
  func refused(_ text: String) {
    #expect(SubjectName(text) == nil)
  }

  @Test("of one kind differs from a name of another kind")
  func kindsDiffer() {
    #expect(SubjectName.dns("spiffe://example.com/partner") != SubjectName("spiffe://example.com/partner"))
    #expect(SubjectName.email("partner.example.com") != SubjectName("partner.example.com"))
  }
}
