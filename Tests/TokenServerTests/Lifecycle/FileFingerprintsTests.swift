import Glibc
import TestSupport
import Testing

@testable import TokenServer

@Suite("The watched files")
struct FileFingerprintsTests {
  let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  @Test("have changed after a write, a removal, a creation or a change of mode")
  func changes() throws {
    let file = try directory.write("a", to: "file")
    var files = FileFingerprints([file, directory.path(of: "missing")])
    #expect(!files.haveChanged)
    for change: (String, () throws -> Void) in [
      ("written", { try directory.write("ab", to: "file") }), ("mode", { unsafe chmod(file, 0o640) }),
      ("removed", { unsafe unlink(file) }), ("made", { try directory.write("a", to: "missing") }),
    ] {
      try change.1()
      #expect(files.haveChanged, "\(change.0)")
      files.look()
      #expect(!files.haveChanged, "\(change.0)")
    }
  }

  @Test("keep their earlier fingerprints when the list of files grows")
  func changeWhileReading() throws {
    let file = try directory.write("a", to: "file")
    let other = try directory.write("b", to: "other")
    var files = FileFingerprints([file])
    try directory.write("after it was read", to: "file")
    files.watch([file, other])
    #expect(files.haveChanged)
    files.keepOnly([other])
    #expect(!files.haveChanged)
  }
}
