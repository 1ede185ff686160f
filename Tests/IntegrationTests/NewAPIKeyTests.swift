import JSON
import TestSupport
import Testing

@Suite("new-api-key")
struct NewAPIKeyTests {
  private static func sha256sum(_ text: String) throws -> String {
    String(try TestSupport.run("sha256sum", input: Array(text.utf8)).stdout.prefix(64))
  }

  @Test("prints a key and its SHA-256 on two lines, and instructions on standard error")
  func lines() throws {
    let result = try Program.run(["new-api-key"])
    #expect(result.status == 0)
    let lines = result.stdout.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    try #require(lines.count == 3 && lines[2].isEmpty, "\(lines.count) lines")
    #expect(try #/mkts_[0-9A-Za-z]{49}/#.wholeMatch(in: lines[0]) != nil)
    #expect(try lines[1] == "sha256 " + Self.sha256sum(lines[0]))
    #expect(result.stderr.contains("apiKey: { sha256: \"\(lines[1].dropFirst(7))\" }"))
    #expect(!result.stderr.contains(lines[0]))
  }

  @Test("with --json prints only one object with the key and its SHA-256")
  func document() throws {
    let result = try Program.run(["new-api-key", "--json"])
    #expect(result.status == 0 && result.stderr.isEmpty)
    let document = try #require(JSONReader.read(result.standardOutput))
    let key = try #require(document["key"]?.string)
    #expect(try document["sha256"]?.string == Self.sha256sum(key))
  }

  @Test("makes keys with the CRC-32 of zlib as their checksum")
  func checksum() throws {
    let key = try Program.run(["new-api-key"]).stdout.prefix(54)
    let script = """
      import string, sys, zlib
      key = sys.argv[1]
      rest, digits = zlib.crc32(key[:-6].encode()), ""
      for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits = (string.digits + string.ascii_uppercase + string.ascii_lowercase)[digit] + digits
      sys.exit(digits != key[-6:])
      """
    #expect(try TestSupport.run(Repository.python, ["-c", script, String(key)]).status == 0, "\(key)")
  }

  @Test("makes a different key each time")
  func fresh() throws {
    let keys = try (0..<8).map { _ in try Program.run(["new-api-key"]).stdout }
    #expect(Set(keys).count == 8)
  }

  @Test("refuses unknown arguments")
  func arguments() throws {
    let result = try Program.run(["new-api-key", "--bits", "64"])
    #expect(result.status == 64)
    #expect(result.stdout.isEmpty)
    #expect(try Program.run(["new-api-key", "--help"]).stdout.contains("--json"))
  }
}
