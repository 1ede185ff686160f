import Glibc
import TestSupport
import Testing

@testable import EventLoop

@Suite struct UnixSocketModeTests {
  @Test(
    "the file of a Unix-domain socket has its mode from the first moment, whatever the umask",
    arguments: [0, 0o022, 0o077] as [mode_t])
  func unixSocketMode(_ mask: mode_t) throws {
    let directory = try TemporaryDirectory()
    let watch = inotify_init1(Int32(IN_NONBLOCK))
    try #require(watch >= 0)
    defer { close(watch) }
    try #require(unsafe inotify_add_watch(watch, directory.path, UInt32(IN_CREATE | IN_ATTRIB)) >= 0)
    let previous = umask(mask)
    defer { umask(previous) }
    let path = directory.path(of: "socket")
    let listeners = try Listener.open(.unix(path: path), loops: 1)
    var status = stat()
    #expect(unsafe stat(path, &status) == 0 && status.st_mode & 0o777 == 0o660)
    #expect(umask(mask) == mask, "the umask is the one before")
    var events = [UInt8](repeating: 0, count: 4096)
    let count = unsafe read(watch, &events, events.count)
    // The events have 16 bytes and a name of a multiple of that: one event, which is the creation.
    #expect(count == 32, "the mode changed after the creation")
    withExtendedLifetime(listeners) {}
  }
}
