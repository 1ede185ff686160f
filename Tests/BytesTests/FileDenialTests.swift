import Glibc
import TestSupport
import Testing

@testable import Bytes

@Suite("A file that this process may not read")
struct FileDenialTests {
  private static let process = "is not readable by this process (user \(geteuid()), group \(getegid()))"

  @Test("is described by its mode, owner and group")
  func file() throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write("x", to: "key", mode: 0o400)
    #expect(
      FileDenial(path).predicate == "\(Self.process): it has mode 0400, owner \(geteuid()) and group \(getegid())")
    #expect(FileDenial("/proc/self/no/such").predicate == Self.process)
  }

  @Test("is described by the first folder on its path that the process may not search")
  func folder() throws {
    // A superuser may search every folder.
    let directory = try TemporaryDirectory()
    let folder = directory.path + "/closed"
    try #require(unsafe mkdir(folder, 0o600) == 0)
    let expected =
      geteuid() == 0
      ? Self.process
      : "\(Self.process): the folder “\(folder)” has mode 0600, owner \(geteuid()) and group \(getegid())"
    #expect(FileDenial("\(folder)/sub/key").predicate == expected)
  }

  @Test(
    "gets advice if its mode is a usual one that was read as a decimal number",
    arguments: [
      (400, "write 0400 in YAML, or 256 in JSON"), (440, "write 0440 in YAML, or 288 in JSON"),
      (444, "write 0444 in YAML, or 292 in JSON"), (600, "write 0600 in YAML, or 384 in JSON"),
      (640, "write 0640 in YAML, or 416 in JSON"),
    ] as [(UInt32, String)])
  func decimal(_ mode: UInt32, _ advice: String) throws {
    let octal = "0" + String(mode, radix: 8)
    let denial = FileDenial(FilePermissions(mode: mode, owner: 0, group: 65532)).predicate
    #expect(
      denial == """
        \(Self.process): it has mode \(octal), owner 0 and group 65532. \(octal) is the decimal number \(mode), as YAML and \
        JSON read a mode without a leading zero: \(advice)
        """)
  }

  @Test(
    "gets no such advice for a mode that was written in octal",
    arguments: [0o400, 0o440, 0o444, 0o600, 0o604, 0o640, 0o644, 0o660, 0o700, 0o750, 0o755, 0o1777, 0] as [UInt32])
  func usual(_ mode: UInt32) {
    #expect(FilePermissions.decimalMode(mode) == nil)
  }
}
