import Testing

@Suite("Links in the documents")
struct DocumentLinkTests {
  @Test("lead to existing files and headings", arguments: Document.all)
  func targets(_ page: String) throws {
    for link in Self.links(in: try Document.text(page)) where !Self.isAbsolute(link) {
      let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
      let file = parts[0].isEmpty ? page : Self.path(String(parts[0]), from: page)
      guard Document.exists(file) else {
        Issue.record("\(page) links to \(link), and \(file) does not exist.")
        continue
      }
      guard parts.count == 2 else { continue }
      let anchors = Self.anchors(in: try Document.text(file))
      #expect(anchors.contains(String(parts[1])), "\(page) links to \(link), and \(file) has no such heading.")
    }
  }

  @Test("lead from README.md to every guide")
  func complete() throws {
    let links = Set(Self.links(in: try Document.text("README.md")))
    #expect(Document.guides.count >= 10)
    for guide in Document.guides { #expect(links.contains(guide), "README.md does not link to \(guide).") }
  }

  @Test("are plain Markdown", arguments: Document.all)
  func plain(_ page: String) throws {
    #expect(try !Document.text(page).contains("<doc:"))
  }

  @Test("use the anchors that GitHub makes from headings")
  func headings() {
    let text = """
      # A `server.tls` & B_c
      ```
      # no heading
      ```
      ## What, why?
      ## What, why?
      ### [A link](other.md)
      """
    #expect(Self.anchors(in: text) == ["a-servertls--b_c", "what-why", "what-why-1", "a-link"])
    #expect(
      Self.links(in: "[a](b.md#c)\n`[x](y)`\n```\n[x](z)\n```\n![d](e.svg) <img src=\"f.svg\">")
        == ["b.md#c", "e.svg", "f.svg"])
    #expect(Self.path("../a/b.md", from: "docs/c.md") == "a/b.md")
  }

  /// Every target of a link or an image outside code.
  private static func links(in text: String) -> [String] {
    let prose = prose(of: text).joined(separator: "\n").replacing(/`[^`\n]*`/, with: "")
    return prose.matches(of: /\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"/).compactMap { match in
      (match.output.1 ?? match.output.2).map(String.init)
    }
  }

  /// The anchors that GitHub makes from headings: letters, digits, `-` and `_` in lower case, each space as `-`,
  /// duplicates numbered.
  private static func anchors(in text: String) -> Set<String> {
    var count: [String: Int] = [:]
    var anchors: Set<String> = []
    for line in prose(of: text) {
      guard let heading = line.wholeMatch(of: /#{1,6} +(.*)/)?.output.1 else { continue }
      let words = heading.replacing(/\[([^\]]*)\]\([^)]*\)/) { $0.output.1 }
      let kept = words.lowercased().filter { $0.isLetter || $0.isNumber || "-_ ".contains($0) }
      let anchor = kept.replacing(" ", with: "-")
      let earlier = count[anchor, default: 0]
      anchors.insert(earlier == 0 ? anchor : "\(anchor)-\(earlier)")
      count[anchor] = earlier + 1
    }
    return anchors
  }

  /// The lines outside fenced code.
  private static func prose(of text: String) -> [Substring] {
    var isCode = false
    return text.split(separator: "\n", omittingEmptySubsequences: false).filter { line in
      let isFence = line.drop { $0 == " " }.hasPrefix("```")
      if isFence { isCode.toggle() }
      return !isFence && !isCode
    }
  }

  private static func isAbsolute(_ link: String) -> Bool { link.contains(/^[a-z]+:/) }

  private static func path(_ link: String, from page: String) -> String {
    var folders = page.split(separator: "/").dropLast()
    for part in link.split(separator: "/") {
      if part == ".." { _ = folders.popLast() } else { folders.append(part) }
    }
    return folders.joined(separator: "/")
  }
}
