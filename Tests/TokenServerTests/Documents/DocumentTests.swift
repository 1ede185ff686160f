import Testing

@Suite("The documents")
struct DocumentTests {
  @Test("name only existing files", arguments: Document.all)
  func files(_ page: String) throws {
    let paths = /`((Sources|Tests|Fuzz|Benchmarks|config|deploy|docs)\/[^`<\s]+)`/
    for match in try Document.text(page).matches(of: paths) {
      let path = String(match.output.1)
      #expect(Document.exists(path), "\(page) names \(path)")
    }
  }

  @Test("README.md has at most 9,000 bytes")
  func size() throws {
    #expect(try Document.text("README.md").utf8.count <= 9_000)
  }
}
