import Cryptography
import Glibc
import TestSupport
import Testing

@testable import Bytes
@testable import DeveloperToken

@Suite("A key file", .otherPrograms)
struct KeyFileTests {
  let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func error(_ path: String, keyID: String? = Samples.keyIDText) throws -> SigningKeyError {
    let keyID = try keyID.map { try KeyID($0) }
    return try #require(throws: SigningKeyError.self) { try SigningKey.load(file: path, keyID: keyID) }
  }

  @Test("takes the key ID from its name")
  func nameGivesKeyID() throws {
    let path = try directory.write(Samples.p8, to: "AuthKey_ABC123DEFG.p8")
    let key = try SigningKey.load(file: path, keyID: nil)
    #expect(key.keyID.description == "ABC123DEFG")
    #expect(key.findings.isEmpty)
  }

  @Test("has any name if the key ID is given", arguments: ["key.p8", "AuthKey_production.p8", "music"])
  func ownName(name: String) throws {
    let path = try directory.write(Samples.p8, to: name)
    #expect(try SigningKey.load(file: path, keyID: Samples.keyID()).keyID == Samples.keyID())
  }

  @Test("without a key ID in its name is refused unless the key ID is given")
  func noKeyID() throws {
    #expect(try error(directory.write(Samples.p8, to: "music.p8"), keyID: nil).reason == .noKeyID)
    let bad = try error(directory.write(Samples.p8, to: "AuthKey_short.p8"), keyID: nil)
    #expect(bad.reason == .badKeyIDInFileName("short"))
    #expect("\(bad)".contains("“short”"))
  }

  @Test("with a key ID in its name that differs from the given key ID is refused, with both IDs in the error")
  func mismatch() throws {
    let error = try error(directory.write(Samples.p8, to: "AuthKey_ZZZ999ZZZ9.p8"))
    #expect("\(error)".contains("ZZZ999ZZZ9") && "\(error)".contains("ABC123DEFG"))
  }

  @Test("may be a symbolic link, as Kubernetes mounts secrets")
  func symbolicLink() throws {
    let target = try directory.write(Samples.p8, to: "data")
    let link = directory.path + "/AuthKey_ABC123DEFG.p8"
    unsafe symlink(target, link)
    #expect(try SigningKey.load(file: link, keyID: nil).keyID.description == "ABC123DEFG")
  }

  @Test("that others can write is refused", arguments: [mode_t(0o620), 0o602, 0o666])
  func writable(mode: mode_t) throws {
    let error = try error(directory.write(Samples.p8, to: "key", mode: mode))
    #expect(error.reason == .writableByOthers(mode: mode))
    #expect("\(error)".contains("0" + String(mode, radix: 8)))
    // 0620 is 400 in decimal.
    #expect("\(error)".contains("write 0400 in YAML, or 256 in JSON") == (mode == 0o620))
  }

  @Test("that others can read gets a finding", arguments: [mode_t(0o644), 0o640, 0o604])
  func readable(mode: mode_t) throws {
    let key = try SigningKey.load(file: directory.write(Samples.p8, to: "key", mode: mode), keyID: Samples.keyID())
    #expect(key.findings.map(\.id) == ["key.readable_by_others"])
  }

  @Test(
    "in a folder that others can write gets a finding, unless the folder is sticky", .otherPrograms,
    arguments: [(0o700, false), (0o755, false), (0o1777, false), (0o770, true), (0o702, true), (0o777, true)]
      as [(mode_t, Bool)])
  func folder(_ mode: mode_t, _ isFound: Bool) throws {
    let path = try directory.write(Samples.p8, to: "AuthKey_ABC123DEFG.p8")
    #expect(unsafe chmod(directory.path, mode) == 0)
    defer { unsafe _ = chmod(directory.path, 0o700) }
    let findings = try SigningKey.load(file: path, keyID: nil).findings
    #expect(findings.map(\.id) == (isFound ? ["key.folder_writable_by_others"] : []))
    #expect(findings.allSatisfy { $0.description.contains("'\(directory.path)'") })
    let safe = try TemporaryDirectory()
    unsafe symlink(path, safe.path(of: "AuthKey_ABC123DEFG.p8"))
    let linked = try SigningKey.load(file: safe.path(of: "AuthKey_ABC123DEFG.p8"), keyID: nil).findings
    #expect(linked == findings, "the folder to which a link leads counts as well")
  }

  @Test("gets findings for its mode and owner, unless its mount is read-only")
  func warnings() {
    func findings(_ mode: mode_t, owner: uid_t, isReadOnly: Bool = false) -> [String] {
      var status = stat()
      status.st_mode = S_IFREG | mode
      status.st_uid = owner
      return KeyFileAccess(status, isReadOnly: isReadOnly).findings("The key file").map(\.id)
    }
    let (us, another) = (geteuid(), geteuid() + 1)
    #expect(findings(0o600, owner: us) == [])
    #expect(findings(0o640, owner: us) == ["key.readable_by_others"])
    #expect(findings(0o640, owner: us, isReadOnly: true) == [], "a mounted secret has the platform's mode")
    #expect(findings(0o600, owner: another) == ["key.owned_by_another"], "its owner can write it")
    #expect(findings(0o640, owner: another) == ["key.owned_by_another"], "the group is how this process reads it")
    #expect(findings(0o644, owner: another) == ["key.owned_by_another", "key.readable_by_others"])
    #expect(findings(0o644, owner: another, isReadOnly: true) == [], "a mounted secret has the platform's owner")
    // Root can write any file anyway.
    #expect(findings(0o400, owner: 0) == [])
  }

  @Test("has an absolute path in errors, and a path that starts with ~ is refused")
  func paths() throws {
    let folder = unsafe String(cString: try #require(unsafe getcwd(nil, 0)))
    #expect(
      try error("no/AuthKey_ABC123DEFG.p8").description
        == "The key file “\(folder)/no/AuthKey_ABC123DEFG.p8” does not exist.")
    #expect(try error("~/AuthKey_ABC123DEFG.p8").reason == .unexpandedHome)
  }

  @Test("that is not a readable regular file is refused with the reason")
  func notAFile() throws {
    let fifo = directory.path + "/fifo"
    unsafe mkfifo(fifo, 0o600)
    #expect(try error(fifo).reason == .notRegularFile)
    #expect(try error(directory.path).reason == .directory)
    let folder = try error(directory.path, keyID: nil)
    #expect(
      folder.description == """
        The key file “\(directory.path)” is a directory; write the path of the file in it.
        """)
    #expect(try error("/dev/null").reason == .notRegularFile)
    let missing = try error(directory.path + "/nothing")
    #expect(missing.reason == .unreadable(ENOENT))
    #expect("\(missing)".contains("does not exist"))
    #expect(try error(directory.write("", to: "empty")).reason == .wrongKind(.empty))
    let denial = FileDenial(FilePermissions(mode: 0o400, owner: 0, group: 7))
    #expect(
      "\(SigningKeyError(.denied(denial), path: "/key"))" == """
        The key file “/key” is not readable by this process (user \(geteuid()), group \(getegid())): it has mode 0400, \
        owner 0 and group 7. Let that user or group read it.
        """)
  }

  @Test("may have up to 16 KiB")
  func bounded() throws {
    let padding = String(repeating: "\n", count: 16_384 - Samples.p8.utf8.count)
    _ = try SigningKey.load(file: directory.write(Samples.p8 + padding, to: "full"), keyID: Samples.keyID())
    #expect(try error(directory.write(Samples.p8 + padding + "\n", to: "large")).reason == .tooLarge(limit: 16_384))
  }
}
