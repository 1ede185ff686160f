import Glibc
import TestSupport
import Testing

@testable import Telemetry
@testable import Tracing

@Suite("The audit file")
struct AuditFileTests {
  let ground: AuditGround

  init() throws {
    signal(SIGPIPE, SIG_IGN)
    ground = try AuditGround()
  }

  @Test("gets one JSON line for each record and keeps its earlier lines")
  func appends() throws {
    try ground.open().writeNow("a")
    let audit = try ground.open()
    try audit.writeNow("b")
    #expect(ground.clients() == ["a", "b"])
    #expect(audit.lostLines == 0 && ground.notices.isEmpty)
  }

  @Test("is readable only by its owner and its group")
  func mode() throws {
    _ = try ground.open()
    var status = stat()
    try #require(unsafe stat(ground.path, &status) == 0)
    #expect(status.st_mode & 0o7777 & ~0o640 == 0)
    #expect(status.st_mode & 0o600 == 0o600)
  }

  @Test("is created again after a move, and the moved file gets no more lines")
  func moved() throws {
    let audit = try ground.open()
    for number in 0..<3 {
      try audit.writeNow("\(number)")
      try ground.move("audit.log", to: "audit.log.\(number)")
    }
    try audit.writeNow("3")
    #expect((0..<3).map { ground.clients(of: "audit.log.\($0)") } == [["0"], ["1"], ["2"]])
    #expect(ground.clients() == ["3"])
    #expect(ground.notices.isEmpty)
  }

  @Test("loses and tears no line during repeated moves")
  func movedUnderLoad() throws {
    let audit = try ground.open()
    var record = try AuditRecordTests.record(.granted)
    var (count, moves) = (0, 0)
    // The audit log's own thread writes meanwhile, and creates the next file for this loop to move.
    while moves < 20, count < 100_000 {
      record.client = "\(count)"
      audit.write(record)
      count += 1
      for _ in 0..<50 where unsafe rename(ground.path, ground.directory.path(of: "\(moves)")) == 0 { moves += 1 }
    }
    #expect(moves >= 20)
    audit.flush(timeout: .seconds(60))
    let clients = (0..<moves).flatMap { ground.clients(of: "\($0)") } + ground.clients()
    #expect(clients == (0..<count).map { "\($0)" })
    #expect(audit.lostLines == 0 && ground.notices.isEmpty)
  }

  @Test("is created again after its removal, and also after its directory was removed and restored")
  func removed() throws {
    let audit = try ground.open()
    try audit.writeNow("a")
    try #require(unsafe unlink(ground.path) == 0)
    try audit.writeNow("b")
    #expect(audit.state.sinceLost == nil)
    #expect(ground.clients() == ["b"])
    try #require(unsafe unlink(ground.path) == 0)
    try #require(unsafe rmdir(ground.directory.path) == 0)
    for _ in 0..<3 { try audit.writeNow("lost", .refused) }
    try audit.writeNow("kept")
    #expect(audit.lostLines == 3 && audit.state.unrecorded == 0 && audit.state.isFailing)
    try #require(unsafe mkdir(ground.directory.path, 0o700) == 0)
    try audit.writeNow("c")
    #expect(ground.clients() == ["kept", "c", "?"])
    #expect(ground.lines().last?.contains(#""message":"log lines were dropped","log.dropped":3"#) == true)
    #expect(!audit.state.isFailing && audit.state.sinceLost != nil && audit.state.sinceUnrecorded == nil)
    #expect(
      ground.notices == [
        "\(AuditFileError(path: ground.path, code: ENOENT))", ground.recovery(losing: 3),
      ])
  }

  @Test("loses only refusals on a full disk, and grants wait until space is available")
  func fullDisk() throws {
    try ground.directory.write("", to: "disk")
    try #require(unsafe symlink("/dev/full", ground.path) == 0)
    let audit = try ground.open()
    for _ in 0..<100 { try audit.writeNow("lost", .refused) }
    for number in 0..<3 { try audit.writeNow("\(number)") }
    #expect(audit.lostLines == 100)
    #expect(ground.notices == ["\(AuditFileError(path: ground.path, code: ENOSPC))"])
    try #require(unsafe unlink(ground.path) == 0)
    try #require(unsafe symlink("disk", ground.path) == 0)
    try audit.writeNow("a")
    try audit.writeNow("b")
    #expect(ground.clients(of: "disk") == ["0", "1", "2", "a", "?", "b"])
    #expect(ground.notices.last == ground.recovery(losing: 100))
  }

  @Test("takes no grant while it is required and cannot be written, until a refusal is written")
  func required() throws {
    try #require(unsafe symlink("/dev/full", ground.path) == 0)
    let audit = try ground.open(isRequired: true)
    let grant = try AuditRecordTests.record(client: "early", .granted)
    #expect(audit.write(grant), "the failure is not known yet")
    #expect(audit.flush(timeout: .seconds(60)))
    #expect(!audit.write(grant))
    #expect(audit.state.unrecorded == 0, "it is not given either")
    try #require(unsafe unlink(ground.path) == 0)
    try audit.writeNow("refusal", .refused)
    #expect(audit.write(grant))
    #expect(audit.flush(timeout: .seconds(60)))
    #expect(ground.clients() == ["early", "refusal", "early"])
  }

  @Test("recovers although no caller causes another line, so that a server that is not ready becomes so")
  func recovery() throws {
    try #require(unsafe symlink("/dev/full", ground.path) == 0)
    let audit = try ground.open(isRequired: true)
    for _ in 0..<3 { try audit.writeNow("lost", .refused) }
    #expect(audit.state.isFailing && audit.lostLines == 3)
    try #require(unsafe unlink(ground.path) == 0)
    wait(for: "the report of the lost lines") { !audit.state.isFailing }
    #expect(ground.lines().count == 1)
    #expect(ground.lines().first?.contains(#""message":"log lines were dropped","log.dropped":3"#) == true)
    #expect(audit.lostLines == 3, "a report that is not written is no lost line")
  }

  @Test("stays in use after a move while a new file cannot be created")
  func blocked() throws {
    let audit = try ground.open()
    try ground.move("audit.log", to: "moved")
    try #require(unsafe mkdir(ground.path, 0o700) == 0)
    try audit.writeNow("a")
    #expect(ground.clients(of: "moved") == ["a"])
    #expect(ground.notices == ["\(AuditFileError(path: ground.path, code: EISDIR))"])
    try #require(unsafe rmdir(ground.path) == 0)
    try audit.writeNow("b")
    #expect(ground.clients(of: "moved") == ["a"] && ground.clients() == ["b"])
    #expect(ground.notices.last == ground.recovery(losing: 0))
    #expect(audit.lostLines == 0)
  }

  @Test("restarts at offset 0 after its truncation")
  func truncated() throws {
    let audit = try ground.open()
    try audit.writeNow("a")
    try #require(unsafe truncate(ground.path, 0) == 0)
    try audit.writeNow("b")
    #expect(ground.clients() == ["b"])
  }

  @Test(
    "loses no line when logrotate rotates the file", .otherPrograms,
    arguments: ["nocreate", "create 0640", "copytruncate"])
  func logrotate(_ way: String) throws {
    let audit = try ground.open()
    let configuration = try ground.directory.write(
      "\"\(ground.path)\" {\n  rotate 9\n  start 0\n  \(way)\n}\n", to: "logrotate.conf")
    for number in 0..<3 {
      try audit.writeNow("\(number)")
      let result = try run(
        "/usr/sbin/logrotate", ["--force", "--state", ground.directory.path(of: "state"), configuration])
      #expect(result.status == 0, "\(result.stderr)")
    }
    try audit.writeNow("3")
    #expect((0..<3).map { ground.clients(of: "audit.log.\($0)") } == [["2"], ["1"], ["0"]])
    #expect(ground.clients() == ["3"])
    #expect(audit.lostLines == 0 && ground.notices.isEmpty)
  }

  @Test("causes a start error with a readable message if the file is not writable")
  func refused() throws {
    let error = #expect(throws: AuditFileError.self) {
      _ = try AuditLog(file: ground.directory.path(of: "no/audit.log")) { _ in }
    }
    #expect(
      error?.description
        == "The server cannot write the audit file '\(ground.directory.path)/no/audit.log': No such file or directory.")
    unsafe symlink("no/audit.log", ground.path)
    #expect(
      #expect(throws: AuditFileError.self) { _ = try ground.open() }?.description
        == "The server cannot write the audit file '\(ground.path)': it is a symbolic link to a folder that does not "
        + "exist; make the folder.")
    #expect(throws: AuditFileError(path: ground.directory.path, code: EISDIR)) {
      _ = try AuditLog(file: ground.directory.path) { _ in }
    }
  }

  @Test("can be a FIFO, and opening a FIFO without a reader fails immediately")
  func fifo() throws {
    try #require(unsafe mkfifo(ground.path, 0o600) == 0)
    #expect(throws: AuditFileError(path: ground.path, code: ENXIO)) { _ = try ground.open() }
    let reader = unsafe open(ground.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    try #require(reader >= 0)
    let audit = try ground.open()
    try audit.writeNow("a")
    var chunk = [UInt8](repeating: 0, count: 4096)
    #expect(unsafe read(reader, &chunk, chunk.count) > 100)
    close(reader)
    // A child process of another test may also hold the read end open until its exec.
    while audit.lostLines == 0 { try audit.writeNow("lost", .refused) }
    #expect(ground.notices == ["\(AuditFileError(path: ground.path, code: EPIPE))"])
  }

  @Test("is optional, and without a file the records go to the log")
  func ontoLog() throws {
    let pipe = try TestPipe()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .text)
    let audit = AuditLog(onto: sink)
    try audit.writeNow("web")
    #expect(pipe.readAvailable().contains(" info audit request.id=R \(RequestTrace.text) client.id=web "))
    #expect(audit.lostLines == 0)
  }
}
