import Glibc
import TestSupport
import Testing

/// Counts with inotify(7) how often each file of a directory is opened.
final class FileOpens {
  private let descriptor: Int32

  init(in directory: TemporaryDirectory) throws {
    descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
    try #require(descriptor >= 0)
    try #require(unsafe inotify_add_watch(descriptor, directory.path, UInt32(IN_OPEN)) >= 0)
  }

  deinit { close(descriptor) }

  /// The number of opens since the last call, by file name.
  func take() -> [String: Int] {
    var counts: [String: Int] = [:]
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let length = unsafe read(descriptor, &buffer, buffer.count)
      guard length > 0 else { return counts }
      var offset = 0
      while offset < length {
        let (event, name) = unsafe buffer.withUnsafeBytes { bytes in
          let event = unsafe bytes.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
          let start = offset + MemoryLayout<inotify_event>.size
          let name = unsafe bytes[start..<start + Int(event.len)].prefix { $0 != 0 }
          return (event, unsafe String(decoding: name, as: UTF8.self))
        }
        if !name.isEmpty { counts[name, default: 0] += 1 }
        offset += MemoryLayout<inotify_event>.size + Int(event.len)
      }
    }
  }
}
