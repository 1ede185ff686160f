import Glibc

/// The reason why this process may not read a file, in the terms of `ls -l`, so that an operator sees what to change.
public struct FileDenial: Sendable, Hashable {
  /// The first folder on the path that this process may not search; nil if the reason is the file's own.
  private let folder: String?
  /// Nil if the system does not tell them.
  private let permissions: FilePermissions?

  /// Looks up the reason for the file at `path`, which the system has refused with `EACCES` or `EPERM`.
  public init(_ path: String) {
    let absolute = Printable.absolute(path)
    let ofFile = FilePermissions(path: absolute)
    folder = ofFile == nil ? Self.closedFolder(above: absolute) : nil
    permissions = ofFile ?? folder.flatMap(FilePermissions.init)
  }

  init(_ permissions: FilePermissions) { (folder, self.permissions) = (nil, permissions) }

  /// Returns the first folder on the way to the file that this process may not search.
  private static func closedFolder(above path: String) -> String? {
    let names = path.split(separator: "/").dropLast()
    let folders = names.indices.map { "/" + names[...$0].joined(separator: "/") }
    return (["/"] + folders).first { unsafe faccessat(AT_FDCWD, $0, X_OK, AT_EACCESS) != 0 && errno == EACCES }
  }

  /// The sentence without its subject and its full stop: `is not readable by this process (user 65532, group 65532): …`.
  public var predicate: String {
    let process = "is not readable by this process (user \(geteuid()), group \(getegid()))"
    guard let permissions else { return process }
    let subject = folder.map { "the folder \(Printable.quote($0, limit: 1024))" } ?? "it"
    return "\(process): \(subject) has \(permissions)\(permissions.remark)"
  }
}

/// Mode, owner and group of a file.
public struct FilePermissions: Sendable, Hashable, CustomStringConvertible {
  /// The permission bits with those of set-user-ID, set-group-ID and the sticky bit.
  public let mode: UInt32
  let owner: UInt32
  let group: UInt32

  /// Creates permissions.
  public init(mode: UInt32, owner: UInt32, group: UInt32) {
    (self.mode, self.owner, self.group) = (mode & 0o7777, owner, group)
  }

  fileprivate init?(path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    self.init(mode: status.st_mode, owner: status.st_uid, group: status.st_gid)
  }

  /// `mode 0400, owner 0 and group 0`.
  public var description: String { "mode \(Self.octal(mode)), owner \(owner) and group \(group)" }
  /// A further part of the sentence for a mode that was probably written without its leading zero; otherwise empty.
  fileprivate var remark: String { Self.decimalMode(mode).map { ". \($0)" } ?? "" }

  /// Returns a mode as in `chmod`: `0600`.
  public static func octal(_ mode: UInt32) -> String {
    let digits = String(mode & 0o7777, radix: 8)
    return String(repeating: "0", count: max(1, 4 - digits.count)) + digits
  }

  /// Returns a sentence without its full stop if `mode` is a usual mode whose octal digits were read as a decimal number:
  /// `defaultMode: 440` in YAML or JSON, and `mode: 600` in a Compose file, are 0670 and 01130.
  public static func decimalMode(_ mode: UInt32) -> String? {
    let digits = String(mode & 0o7777)
    // Only reading and writing: a key is not executed. The owner may read.
    guard digits.utf8.count == 3, digits.allSatisfy({ "046".contains($0) }), let meant = UInt32(digits, radix: 8)
    else { return nil }
    return "\(octal(mode)) is the decimal number \(digits), as YAML and JSON read a mode without a leading zero: write "
      + "0\(digits) in YAML, or \(meant) in JSON"
  }
}
