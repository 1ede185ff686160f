import CEmbeddedFiles
import JSON

/// A file of resources, for the catalog to add.
package struct SandboxFile: Sendable {
  let name: String
  let content: [UInt8]

  package init(name: String, content: [UInt8]) {
    (self.name, self.content) = (name, content)
  }

  /// Creates the file with that name in `Data`, which the program has in itself.
  init(embedded name: String) {
    var count = 0
    // Safe: the bytes are as many as the function states, for as long as the program runs.
    content = unsafe Array(UnsafeBufferPointer(start: cembedded_file(name, &count), count: count))
    self.name = name
  }

  var value: JSONValue { JSONReader.read(content) ?? .null }
}
