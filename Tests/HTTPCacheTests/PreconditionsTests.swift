import HTTP1
import HTTPTypes
import Testing

@testable import HTTPCache

@Suite("Conditional requests")
struct PreconditionsTests {
  private func isNotModified(_ response: StoredResponse, tags: [String] = [], since: [String] = []) -> Bool {
    var preconditions = Preconditions()
    for tag in tags { preconditions.add(ifNoneMatch: Array(tag.utf8).span) }
    for date in since { preconditions.add(ifModifiedSince: Array(date.utf8).span) }
    return response.isNotModified(preconditions, now: Sample.time(0))
  }

  static let tags: [(label: String, lines: [String], matches: Bool)] = [
    ("the tag", ["\"a,b\""], true),
    ("the tag, weak", ["W/\"a,b\""], true),
    ("any", ["*"], true),
    ("any, with space", [" * "], true),
    ("among others", ["\"x\", W/\"y\",\"a,b\" , \"z\""], true),
    ("with empty elements", [", ,\"a,b\",,"], true),
    ("on the second line", ["\"x\"", "\"a,b\""], true),
    ("another", ["\"a\""], false),
    ("in another case", ["\"A,B\""], false),
    ("none", [""], false),
    ("without quotes", ["a,b"], false),
    ("with one quote", ["\"a,b"], false),
    ("with a small w", ["w/\"a,b\""], false),
    ("with space in the prefix", ["W/ \"a,b\""], false),
    ("any, and more", ["*, \"a,b\""], false),
    ("behind what is malformed", ["x, \"a,b\""], false),
    ("without a comma", ["\"x\" \"a,b\""], false),
    ("with a space in it", ["\"a, b\""], false),
    ("as a quoted pair", ["\"a\\,b\""], false),
  ]

  @Test("If-None-Match uses weak comparison", arguments: tags)
  func ifNoneMatch(label: String, lines: [String], matches: Bool) throws {
    for tag in ["\"a,b\"", "W/\"a,b\""] {
      #expect(isNotModified(try Sample.response(.ok, [.eTag: tag]), tags: lines) == matches, "\(label)")
    }
  }

  static let dates: [(label: String, fields: FieldLines, since: [String], holds: Bool)] = [
    ("the same", [.lastModified: Sample.date(-100)], [Sample.date(-100)], true),
    ("later", [.lastModified: Sample.date(-100)], [Sample.date(-99)], true),
    ("earlier", [.lastModified: Sample.date(-100)], [Sample.date(-101)], false),
    ("no date", [.lastModified: Sample.date(-100)], ["yesterday"], false),
    ("two of them", [.lastModified: Sample.date(-100)], [Sample.date(0), Sample.date(0)], false),
    ("by Date", [.date: Sample.date(-100)], [Sample.date(-100)], true),
    ("by Date, earlier", [.date: Sample.date(-100)], [Sample.date(-101)], false),
    ("by the time of receipt", [:], [Sample.date(-1)], false),
    ("Last-Modified that is none", [.lastModified: "x", .date: Sample.date(-100)], [Sample.date(-100)], true),
  ]

  @Test("If-Modified-Since compares dates", arguments: dates)
  func ifModifiedSince(label: String, fields: FieldLines, since: [String], holds: Bool) throws {
    #expect(isNotModified(try Sample.response(.ok, fields), since: since) == holds, "\(label)")
  }

  @Test("If-None-Match overrides If-Modified-Since")
  func precedence() throws {
    let response = try Sample.response(.ok, [.eTag: "\"a\"", .lastModified: Sample.date(-100)])
    #expect(!isNotModified(response, tags: ["\"b\""], since: [Sample.date(0)]))
    #expect(isNotModified(response, tags: ["\"a\""], since: [Sample.date(-200)]))
  }

  @Test("preconditions apply only to a 200, and only if the request has some")
  func others() throws {
    #expect(!isNotModified(try Sample.response(.notFound, [.eTag: "\"a\""]), tags: ["*"]))
    #expect(!isNotModified(try Sample.response(.ok, [.eTag: "\"a\""])))
  }
}
