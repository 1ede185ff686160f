import Glibc

/// Which file it is, whatever its name.
struct FileIdentity: Equatable {
  private let device: dev_t
  private let number: ino_t

  /// The identity of an open file; nil if the descriptor is not open.
  init?(descriptor: Int32) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// The identity of the file at a path, symbolic links followed; nil if no file is visible there.
  init?(path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// Whether an open file has a name left.
  static func isLinked(_ descriptor: Int32) -> Bool {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 && status.st_nlink > 0
  }
}
