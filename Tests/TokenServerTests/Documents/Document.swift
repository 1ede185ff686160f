import Glibc

@testable import ServerSettings
@testable import TokenServer

/// The Markdown documents of the repository.
enum Document {
  /// The root of the repository, three folders above the folder of this source file.
  static let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")

  static let all = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"] + guides

  /// Every Markdown file in `docs/`.
  static let guides: [String] = {
    guard let folder = unsafe opendir("\(root)/docs") else { return [] }
    defer { unsafe _ = closedir(folder) }
    var names: [String] = []
    while let entry = unsafe readdir(folder) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name.hasSuffix(".md") { names.append("docs/\(name)") }
    }
    return names.sorted()
  }()

  static func text(_ path: String) throws -> String {
    String(decoding: try SmallFile.read("\(root)/\(path)", atMost: 1 << 20), as: UTF8.self)
  }

  /// Whether a file or a folder exists at this path.
  static func exists(_ path: String) -> Bool { unsafe access("\(root)/\(path)", F_OK) == 0 }
}
