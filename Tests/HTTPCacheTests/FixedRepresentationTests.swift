import HTTPCache
import Testing

@Suite("A fixed representation")
struct FixedRepresentationTests {
  private static let text = Array(String(repeating: "music ", count: 200).utf8)
  private let representation = FixedRepresentation(text)

  private func conditions(_ tags: String) -> Preconditions {
    var conditions = Preconditions()
    conditions.add(ifNoneMatch: Array(tags.utf8).span)
    return conditions
  }

  @Test("is shorter for a caller that accepts gzip")
  func codings() {
    #expect(representation.selection(for: .identity, Preconditions()) == .content(Self.text, .identity))
    guard case .content(let content, .gzip) = representation.selection(for: .gzip, Preconditions()) else {
      Issue.record("not compressed")
      return
    }
    #expect(content.count < Self.text.count / 4 && content.starts(with: [0x1F, 0x8B]))
  }

  @Test("has no coding if that would not make it shorter")
  func short() {
    #expect(FixedRepresentation([0x20]).selection(for: .gzip, Preconditions()) == .content([0x20], .identity))
  }

  @Test("is not sent to a caller that has it")
  func validator() {
    let tag = representation.entityTag
    for tags in [tag, "\"other\", \(tag)", "*", String(tag.dropFirst(2))] {
      #expect(representation.selection(for: .gzip, conditions(tags)) == .notModified, "\(tags)")
    }
    #expect(representation.selection(for: .identity, conditions("W/\"other\"")) == .content(Self.text, .identity))
    #expect(FixedRepresentation([1]).entityTag != tag)
  }

  @Test("ignores a date, because it has none")
  func date() {
    var conditions = Preconditions()
    conditions.add(ifModifiedSince: Array("Sun, 06 Nov 1994 08:49:37 GMT".utf8).span)
    #expect(representation.selection(for: .identity, conditions) == .content(Self.text, .identity))
  }
}
