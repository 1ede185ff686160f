import Glibc
import MusicSandbox
import ServerSettings
import TokenServer

/// The files of `--data`, which add resources to the emulator or replace its own.
enum SandboxData {
  /// The maximum number of files, and the maximum size of each in bytes.
  private static let highest = (files: 256, size: 16 << 20)

  /// Returns a catalog with the resources of a folder's files that end with `.json`, in the order of their names.
  ///
  /// - Parameter folder: The path; nil for none.
  /// - Throws: A sentence with the file and the member that does not fit.
  static func catalog(_ folder: String?) throws -> Catalog? {
    guard let folder else { return nil }
    let files = try names(folder).map { name in
      let path = "\(folder)/\(name)"
      guard let content = try? SmallFile.read(path, atMost: highest.size) else {
        throw StartError(
          "The file \(quoted(path)) of --data cannot be read, or has more than \(highest.size >> 20) MiB.")
      }
      // A copy, because the array that was read has room for the largest file.
      return SandboxFile(name: path, content: Array(content.dropFirst(0)))
    }
    do throws(DataError) { return try Catalog(adding: files) } catch {
      throw StartError("The data of --data does not fit. \(error)")
    }
  }

  private static func names(_ folder: String) throws -> [String] {
    guard let directory = unsafe opendir(folder) else {
      throw StartError("The folder \(quoted(folder)) of --data cannot be read.")
    }
    defer { unsafe _ = closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      // Safe: the entry is valid until the next call, and its name ends with a zero byte.
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name.hasSuffix(".json"), !name.hasPrefix(".") { names.append(name) }
    }
    guard (1...highest.files).contains(names.count) else {
      throw StartError("The folder \(quoted(folder)) of --data must have from 1 to \(highest.files) files *.json.")
    }
    return names.sorted()
  }
}
