import CCatalogData
import JSON

/// A file of resources, for the catalog to add.
package struct SandboxFile: Sendable {
  let name: String
  let content: [UInt8]

  package init(name: String, content: [UInt8]) {
    (self.name, self.content) = (name, content)
  }

  /// The files of `Data`, which the program has in itself.
  static let embedded = (0..<ccatalog_count()).map { index in
    let file = unsafe ccatalog_file(index)
    // Safe: the name ends with a zero byte, and the bytes are as many as the file states, for as long as the program runs.
    return unsafe SandboxFile(
      name: String(cString: file.name), content: Array(UnsafeBufferPointer(start: file.bytes, count: file.count)))
  }

  static func embedded(_ name: String) -> JSONValue {
    embedded.first { $0.name == name }.flatMap { JSONReader.read($0.content) } ?? .null
  }
}
