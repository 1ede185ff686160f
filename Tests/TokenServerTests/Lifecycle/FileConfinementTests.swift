import Dispatch
import Glibc
import ServerSettings
import TestSupport
import Testing

@testable import TokenServer

/// Whether the kernel enforces Landlock.
private let isOffered: Bool = {
  let outcomes = try? Threads.run(1) { _ in FileConfinement.begin(.init(), keepsAbstractSockets: false).outcome }
  if case .enforced? = outcomes?.first { return true }
  return false
}()

/// Landlock confines a thread and those that it creates, so each test confines a thread of its own.
@Suite("The confinement of files", .enabled(if: isOffered, "this kernel has no Landlock"))
struct FileConfinementTests {
  private let directory: TemporaryDirectory
  private let grants: FileConfinement.Grants

  /// Folders for the settings' files, the audit log and the socket, and one that no setting names.
  init() throws {
    directory = try TemporaryDirectory()
    for folder in ["named", "audit", "run", "other"] { unsafe mkdir(directory.path(of: folder), 0o700) }
    for file in ["named/key.p8", "audit/audit.log", "other/key.p8"] { try directory.write("a", to: file) }
    unsafe symlink(directory.path(of: "other"), directory.path(of: "link"))
    grants = FileConfinement.Grants(
      reading: [directory.path(of: "named/key.p8")], auditFile: directory.path(of: "audit/audit.log"),
      unixSocket: directory.path(of: "run/http.sock"))
  }

  /// Returns the result of `work` on a confined thread.
  private func confined<Value: Sendable>(
    _ grants: FileConfinement.Grants? = nil, keepsAbstractSockets: Bool = false,
    _ work: @escaping @Sendable (FileConfinement) throws -> Value
  ) throws -> Value {
    let grants = grants ?? self.grants
    return try #require(
      try Threads.run(1) { _ in
        try work(FileConfinement.begin(grants, keepsAbstractSockets: keepsAbstractSockets))
      }.first)
  }

  /// Opens the entry `name`, and returns the error, or 0.
  private func opened(_ name: String, _ flags: Int32) throws -> Int32 {
    let path = directory.path(of: name)
    return try confined { _ in Self.open(path, flags) }
  }

  private static func open(_ path: String, _ flags: Int32) -> Int32 {
    let descriptor = unsafe Glibc.open(path, flags | O_CLOEXEC | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { return errno }
    close(descriptor)
    return 0
  }

  @Test(
    "leaves what the server needs",
    arguments: [
      ("named/key.p8", O_RDONLY), ("audit/audit.log", O_WRONLY | O_APPEND),
      ("audit/new.log", O_WRONLY | O_APPEND | O_CREAT),
    ])
  func leaves(_ name: String, _ flags: Int32) throws {
    #expect(try opened(name, flags) == 0)
  }

  @Test("holds for threads that a confined one creates, and leaves a file that replaces a named one")
  func renewed() throws {
    let (new, named) = (directory.path(of: "named/new"), directory.path(of: "named/key.p8"))
    try directory.write("b", to: "named/new")
    let isConfined = DispatchGroup()
    isConfined.enter()
    let isReplaced = DispatchGroup()
    isReplaced.enter()
    let grants = grants
    // The second thread is not confined. It replaces the file after the first one has lost its rights.
    let results = try Threads.run(2) { index in
      guard index == 0 else {
        isConfined.wait(for: "the confinement")
        defer { isReplaced.leave() }
        return [unsafe rename(new, named)]
      }
      _ = FileConfinement.begin(grants, keepsAbstractSockets: false)
      let denied = try Threads.run(1) { _ in unsafe rename(new, named) }
      isConfined.leave()
      isReplaced.wait(for: "the new file")
      return denied + [Self.open(named, O_RDONLY)]
    }
    #expect(results == [[-1, 0], [0]])
  }

  @Test(
    "denies everything else",
    arguments: [
      ("other/key.p8", O_RDONLY), ("link/key.p8", O_RDONLY), ("other", O_RDONLY), ("named/key.p8", O_WRONLY),
      ("named", O_RDONLY),
      ("named/key.p8", O_RDONLY | O_TRUNC), ("named/new", O_WRONLY | O_CREAT), ("audit/audit.log", O_RDONLY),
      ("audit/audit.log", O_WRONLY | O_TRUNC), ("run/file", O_WRONLY | O_CREAT),
    ])
  func denies(_ name: String, _ flags: Int32) throws {
    #expect(try opened(name, flags) == EACCES)
  }

  @Test("denies removing, making folders, running programs, and signals to others")
  func deniesOther() throws {
    let (file, folder) = (directory.path(of: "named/key.p8"), directory.path(of: "audit/folder"))
    let parent = getppid()
    let errors = try confined { _ in
      [
        unsafe unlink(file) == 0 ? 0 : errno, unsafe mkdir(folder, 0o700) == 0 ? 0 : errno,
        kill(parent, 0) == 0 ? 0 : errno, Self.open("/root", O_RDONLY), Self.open("/etc/hosts", O_RDONLY),
      ]
    }
    #expect(errors == [EACCES, EACCES, EPERM, EACCES, 0])
  }

  @Test("leaves the Unix-domain socket, which the server makes and removes")
  func socket() throws {
    let path = directory.path(of: "run/http.sock")
    let elsewhere = directory.path(of: "audit/http.sock")
    let results = try confined { _ in
      [Self.binds(path), unsafe unlink(path) == 0, Self.binds(elsewhere)]
    }
    #expect(results == [true, true, false])
  }

  /// Whether a socket can be bound to `path`.
  private static func binds(_ path: String) -> Bool {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
    let socket = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(socket) }
    return unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe bind(socket, address, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
  }

  @Test("names a file that only a restart makes readable, and no other")
  func check() throws {
    let inside = directory.path(of: "named/key.p8")
    let outside = directory.path(of: "other/key.p8")
    let missing = directory.path(of: "other/missing")
    let errors = try confined { confinement in
      do throws(InvalidSettings) {
        try confinement.check([("a", inside), ("b", outside), ("c", missing)])
        return [String]()
      } catch {
        return error.errors.map(\.description)
      }
    }
    #expect(
      errors == [
        """
        b: the file "\(outside)" is not one that the server may read since its start; restart the server to use it, \
        or keep such files in one folder without files of other programs.
        """
      ])
  }

  @Test("leaves a file below a link that is swapped, and grants no more for a link that leads elsewhere")
  func swappedLink() throws {
    unsafe mkdir(directory.path(of: "app"), 0o700)
    for release in ["app/1", "app/2"] {
      unsafe mkdir(directory.path(of: release), 0o700)
      try directory.write("a", to: "\(release)/tls.crt")
    }
    let current = directory.path(of: "app/current")
    unsafe symlink("1", current)
    let near = FileConfinement.Grants(reading: ["\(current)/tls.crt"], auditFile: nil, unixSocket: nil)
    unsafe unlink(current)
    unsafe symlink("2", current)
    #expect(try confined(near) { _ in Self.open("\(current)/tls.crt", O_RDONLY) } == 0)
    unsafe symlink(directory.path(of: "other"), directory.path(of: "app/far"))
    let far = FileConfinement.Grants(
      reading: [directory.path(of: "app/far/key.p8")], auditFile: nil, unixSocket: nil)
    #expect(far.reading.contains(directory.path(of: "other")))
    #expect(!far.reading.contains(directory.path(of: "app")))
  }

  @Test("grants the folders that links in a folder of certificates lead to")
  func certificateFolder() throws {
    for link in ["named/0.0", "named/1.0"] {
      unsafe symlink(directory.path(of: "other/key.p8"), directory.path(of: link))
    }
    unsafe symlink("/missing", directory.path(of: "named/2.0"))
    let targets = FileConfinement.Grants.targets(in: directory.path(of: "named"))
    #expect(targets == [directory.path(of: "other")])
    #expect(FileConfinement.Grants.targets(in: "/missing").isEmpty)
  }

  @Test("leaves this process's folder in procfs, and no other")
  func ownProcess() throws {
    let errors = try confined { _ in
      ["/proc/self/statm", "/proc/self/fd", "/proc/1/status", "/proc/meminfo", "/proc"].map { Self.open($0, O_RDONLY) }
    }
    #expect(errors == [0, 0, EACCES, EACCES, EACCES])
  }

  @Test("grants the resolver's files, and all of their folder only if a new file may take the place of resolv.conf")
  func resolver() throws {
    let place = directory.path(of: "named/resolv.conf")
    try directory.write("nameserver 192.0.2.1", to: "named/resolv.conf")
    #expect(FileConfinement.Grants.isReplaceable(place), "DHCP replaces it")
    #expect(FileConfinement.Grants.isReplaceable(directory.path(of: "named/missing")), "DHCP makes it")
    #expect(!FileConfinement.Grants.isReplaceable("/proc"), "a mount stays")
    #expect(FileConfinement.Grants.resolver(configuration: place).last == directory.path(of: "named"))
    try directory.write("nameserver 192.0.2.1", to: "run/stub-resolv.conf")
    unsafe unlink(place)
    unsafe symlink("../run/stub-resolv.conf", place)
    #expect(!FileConfinement.Grants.isReplaceable(place), "systemd-resolved writes to the target")
    let linked = FileConfinement.Grants.resolver(configuration: place)
    #expect(linked.contains(directory.path(of: "run")) && linked.contains("/etc/hosts") && !linked.contains("/etc"))
  }

  @Test(
    "grants a file alone in a folder that others use too",
    arguments: [
      ("/", true), ("/dev", true), ("/etc", true), ("/etc/ssl", true), ("/tmp", true), ("/home", true), ("/root", true),
      ("/usr/lib", false), ("/etc/ssl/certs", false), ("/missing", false),
    ])
  func shared(_ folder: String, _ isTooWide: Bool) {
    #expect(FileConfinement.Grants.isTooWide(folder) == isTooWide)
  }

  @Test("leaves the audit log's file to be made where a link to a missing file leads")
  func linkToMissingFile() throws {
    unsafe symlink("../other/first", directory.path(of: "audit/linked.log"))
    unsafe symlink(directory.path(of: "run/new.log"), directory.path(of: "other/first"))
    let link = directory.path(of: "audit/linked.log")
    let grants = FileConfinement.Grants(reading: [], auditFile: link, unixSocket: nil)
    #expect(grants.writing == [directory.path(of: "audit"), directory.path(of: "run")])
    #expect(try confined(grants) { _ in Self.open(link, O_WRONLY | O_APPEND | O_CREAT) } == 0)
    unsafe symlink("loop", directory.path(of: "audit/loop"))
    let loop = FileConfinement.Grants(reading: [], auditFile: directory.path(of: "audit/loop"), unixSocket: nil)
    #expect(loop.writing == [directory.path(of: "audit")])
  }

  @Test("grants the folder of a file and of its target, and never the root or the folder of devices")
  func grantedPlaces() throws {
    unsafe symlink(directory.path(of: "other/key.p8"), directory.path(of: "named/link.p8"))
    let places = FileConfinement.Grants(
      reading: [directory.path(of: "named/link.p8"), "/key.p8"], auditFile: "/dev/null", unixSocket: nil)
    #expect(places.reading.contains(directory.path(of: "named")))
    #expect(places.reading.contains(directory.path(of: "other")))
    #expect(places.reading.contains("/key.p8"))
    #expect(!places.reading.contains("/"))
    #expect(places.writing == ["/dev/null"])
    #expect(places.binding.isEmpty)
  }
}
