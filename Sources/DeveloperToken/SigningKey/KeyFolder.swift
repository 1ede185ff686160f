import Bytes
import Cryptography
import Glibc

/// A folder of a key file, as other users may change it. A user who may write to a folder can put another file in place of
/// one in it, whatever the mode of that file.
struct KeyFolder {
  private let path: String
  private let mode: mode_t
  private let owner: uid_t

  /// Reads the permissions of a folder. Returns nil if the file system is read-only, as that of a mounted secret is, or if
  /// the system does not report them.
  private init?(_ path: String) {
    var (status, system) = (stat(), statvfs())
    guard unsafe stat(path, &status) == 0, unsafe statvfs(path, &system) == 0, system.f_flag & UInt(ST_RDONLY) == 0
    else {
      return nil
    }
    (self.path, mode, owner) = (path, status.st_mode & 0o7777, status.st_uid)
  }

  /// Returns what the operator should fix about the folder of a file, and about that of the file to which its link leads.
  static func findings(of file: String) -> [Finding] {
    var folders = [folder(of: file)]
    if let target = unsafe realpath(file, nil) {
      folders.append(folder(of: unsafe String(cString: target)))
      unsafe free(target)
    }
    return folders.lazy.compactMap { KeyFolder($0)?.finding }.prefix(1).map { $0 }
  }

  private static func folder(of file: String) -> String {
    guard let slash = file.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == file.utf8.startIndex ? "/" : String(file[..<slash])
  }

  /// What the operator should fix; nil if nothing. In a sticky folder, such as /tmp, only the owners of a file and of the
  /// folder can replace the file (chmod(2)).
  private var finding: Finding? {
    let isOfAnother = owner != 0 && owner != geteuid()
    guard isOfAnother || mode & 0o022 != 0 && mode & UInt32(S_ISVTX) == 0 else { return nil }
    return Finding(
      id: "key.folder_writable_by_others",
      description:
        "Other users of this machine can write to the folder of the key file, '\(path)' (user \(owner), mode "
        + "\(FilePermissions.octal(mode))), and put another key in its place; chown and chmod go-w fix it.")
  }
}
