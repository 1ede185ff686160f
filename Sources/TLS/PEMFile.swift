import Bytes
import COpenSSL
import Glibc

/// The contents of a certificate or key file, read once. Its bytes are wiped when the last reference is released.
///
/// `@unchecked Sendable`: the bytes are only read, and only ``deinit`` frees them.
@safe public final class PEMFile: @unchecked Sendable {
  /// The reason why a file cannot be read or cannot be a PEM file.
  public enum Failure: Error, Equatable {
    /// The system's error number.
    case system(Int32)
    case isDirectory, isNotRegular, isEmpty, isTooLarge
  }

  /// The maximum size in bytes: more than any chain or CA bundle.
  static let maximumBytes = 4 * 1024 * 1024

  let path: String
  /// The access of other users to the file that was read.
  let access: FileAccess
  private let bytes: UnsafeMutableRawBufferPointer

  /// Reads the whole file.
  public init(reading path: String) throws(Failure) {
    let file = try OpenedFile(path)
    try Self.check(file.status)
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(file.status.st_size), alignment: 1)
    do throws(Failure) { unsafe try file.fill(bytes) } catch {
      unsafe Self.wipe(bytes)
      throw error
    }
    unsafe self.bytes = unsafe bytes
    (self.path, access) = (path, file.access)
  }

  /// Reads the whole file. Throws `configuration` with a sentence that names it if it cannot be read.
  public convenience init(_ path: String) throws(TLSError) {
    do throws(Failure) { try self.init(reading: path) } catch { throw error.of(path) }
  }

  deinit { unsafe Self.wipe(bytes) }

  /// Calls `body` with a BIO that reads the file's bytes.
  private func withBIO(_ body: (OpaquePointer) throws(TLSError) -> Void) throws(TLSError) {
    // The size fits, because it was checked. The BIO copies nothing and is freed before the bytes.
    guard let bio = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else {
      throw .internalFailure("The process has no memory to read '\(path)'.")
    }
    defer { unsafe BIO_free(bio) }
    unsafe try body(bio)
  }

  /// Calls `body` with every certificate in the file, in order, with its place from 0.
  /// - Throws: `configuration` if the file contains no certificate or a damaged one; also the errors of `body`.
  func forEachCertificate(_ body: (Int, consuming Certificate) throws(TLSError) -> Void) throws(TLSError) {
    unsafe try withBIO { bio throws(TLSError) in
      var place = 0
      ErrorQueue.clear()
      while let certificate = unsafe PEM_read_bio_X509(bio, nil, nil, nil) {
        unsafe try body(place, Certificate(owning: certificate))
        place += 1
      }
      // Only the end of the file may stop the loop.
      guard ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE else {
        throw .configuration("Certificate \(place + 1) in '\(path)' is damaged; copy the file again.")
      }
      ErrorQueue.clear()
      guard place == 0 else { return }
      throw TLSError(
        .configuration, "'\(path)' contains no certificate but \(contents); name the PEM certificate chain.")
    }
  }

  /// Calls `body` with the private key in the file.
  /// - Throws: `configuration` without a usable key; also the errors of `body`.
  func withPrivateKey(_ body: (OpaquePointer) throws(TLSError) -> Void) throws(TLSError) {
    unsafe try withBIO { bio throws(TLSError) in
      var isEncrypted = false
      ErrorQueue.clear()
      // Only an encrypted key makes OpenSSL request a passphrase, by default on the terminal.
      let key = unsafe PEM_read_bio_PrivateKey(
        bio, nil,
        { _, _, _, isEncrypted in
          unsafe isEncrypted?.assumingMemoryBound(to: Bool.self).pointee = true
          return -1
        }, &isEncrypted)
      guard let key = unsafe key else { throw keyError(isEncrypted: isEncrypted) }
      defer { unsafe EVP_PKEY_free(key) }
      unsafe try body(key)
    }
  }

  private func keyError(isEncrypted: Bool) -> TLSError {
    guard isEncrypted else {
      return .configuration(
        "'\(path)' contains no usable private key but \(contents); name the PEM key of the certificate.")
    }
    ErrorQueue.clear()
    return TLSError(
      .configuration,
      "The key in '\(path)' is encrypted; decrypt it with 'openssl pkey -in \(path) -out key.pem' and name that file.")
  }

  /// The contents as a part of a sentence, with the label of the first PEM block (RFC 7468 §2), which is public.
  private var contents: String {
    let text = unsafe bytes.bindMemory(to: UInt8.self)
    let opening = Array("-----BEGIN ".utf8)
    let places = 0..<max(0, text.count - opening.count)
    guard let start = places.first(where: { unsafe text[$0...].starts(with: opening) }) else {
      return "nothing in PEM form (no '-----BEGIN …' line)"
    }
    let label = unsafe text[(start + opening.count)...].prefix(64).prefix { $0 != UInt8(ascii: "-") }
    return unsafe "a PEM block labelled '\(String(decoding: label, as: UTF8.self))'"
  }

  private static func check(_ status: stat) throws(Failure) {
    switch status.st_mode & S_IFMT {
    case S_IFREG: break
    case S_IFDIR: throw .isDirectory
    default: throw .isNotRegular
    }
    guard status.st_size > 0 else { throw .isEmpty }
    guard status.st_size <= maximumBytes else { throw .isTooLarge }
  }

  private static func wipe(_ buffer: UnsafeMutableRawBufferPointer) {
    unsafe OPENSSL_cleanse(buffer.baseAddress, buffer.count)
    unsafe buffer.deallocate()
  }
}

/// A file that is open for reading.
final class OpenedFile {
  private let descriptor: Int32
  let status: stat
  /// The access of other users to it.
  let access: FileAccess

  init(_ path: String) throws(PEMFile.Failure) {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
    var (status, mount) = (stat(), statvfs())
    guard descriptor >= 0, unsafe fstat(descriptor, &status) == 0, unsafe fstatvfs(descriptor, &mount) == 0 else {
      defer { close(descriptor) }
      throw .system(errno)
    }
    (self.descriptor, self.status) = (descriptor, status)
    access = FileAccess(path: path, mode: status.st_mode, isOnReadOnlyMount: mount.f_flag & UInt(ST_RDONLY) != 0)
  }

  deinit { close(descriptor) }

  /// Reads the next bytes into all of `memory`.
  func fill(_ memory: UnsafeMutableRawBufferPointer) throws(PEMFile.Failure) {
    var filled = 0
    while filled < memory.count {
      let free = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[filled...])
      let count = unsafe read(descriptor, free.baseAddress, free.count)
      if count < 0, errno == EINTR { continue }
      // At the end the file is shorter than before, so another process is rewriting it.
      guard count > 0 else { throw .system(count == 0 ? EAGAIN : errno) }
      filled += count
    }
  }
}

extension PEMFile.Failure {
  /// Returns the error with a sentence that names the file and the fix. Its cause is `configuration`.
  public func of(_ path: String) -> TLSError {
    let sentence =
      switch self {
      case .system(EACCES): "\(FileDenial(path).predicate). Let that user or group read it."
      case .system(let code):
        "cannot be read: \(unsafe strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"). Check the path "
          + "and its permissions."
      case .isDirectory: "is a directory; name the PEM file itself."
      case .isNotRegular: "is not a regular file; name the PEM file itself."
      case .isEmpty: "is empty; write the PEM into it."
      case .isTooLarge: "is larger than \(PEMFile.maximumBytes) bytes, which is the limit for a PEM file."
      }
    return TLSError(.configuration, "'\(path)' \(sentence)")
  }
}

/// The access of other users to a file with a secret.
struct FileAccess {
  let path: String
  /// The permissions, as in `st_mode`.
  let mode: mode_t
  /// Whether the file is on a read-only mount, as an orchestrator's secrets are.
  let isOnReadOnlyMount: Bool

  /// Returns a sentence for the operator if all users can read the file, a `kind` such as `key file`.
  /// - Throws: `configuration` if others can replace the secret.
  func findings(_ kind: String) throws(TLSError) -> [String] {
    guard mode & (S_IWGRP | S_IWOTH) == 0 else {
      throw TLSError(
        .configuration, "Users other than the owner can write to the \(kind) '\(path)'; run 'chmod 600 \(path)'.")
    }
    guard mode & S_IROTH != 0, !isOnReadOnlyMount else { return [] }
    return ["All users of this machine can read the \(kind) '\(path)'; run 'chmod 600 \(path)'."]
  }
}
