import COpenSSL
import Glibc

/// A file with the key of session tickets that several servers share, in the format of nginx's `ssl_session_ticket_key`
/// for AES-256: 80 random bytes, of which the first 16 are the key's name in tickets, the next 32 the key for
/// HMAC-SHA-256, and the last 32 the key for AES-256-CBC.
public struct TicketKeyFile: Sendable {
  /// The command that makes such a file. It never contains the path of a wrong file, because it would overwrite it.
  static let command = "openssl rand -out ticket.key \(TicketKey.bytes)"

  /// The length of nginx's files for AES-128.
  private static let olderBytes = 48

  let path: String
  let key: TicketKey
  /// The problems of the usable file for the operator: one sentence each.
  let findings: [String]

  /// Reads the file directly into the memory of its key.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the fix.
  public init(_ path: String) throws(TLSError) {
    let file: OpenedFile
    do throws(PEMFile.Failure) { file = try OpenedFile(path) } catch { throw error.of(path) }
    try Self.check(file.status, path)
    findings = try file.access.findings("ticket key file")
    key = unsafe try TicketKey { memory throws(TLSError) in
      do throws(PEMFile.Failure) { unsafe try file.fill(memory) } catch { throw error.of(path) }
    }
    self.path = path
  }

  private static func check(_ status: stat, _ path: String) throws(TLSError) {
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw TLSError(.configuration, "'\(path)' is not a regular file; name the file of the ticket key itself.")
    }
    guard status.st_size != TicketKey.bytes else { return }
    let older = status.st_size == olderBytes ? ", as older versions of nginx use them with AES-128" : ""
    throw TLSError(
      .configuration,
      "'\(path)' has \(status.st_size) bytes\(older), and a ticket key has \(TicketKey.bytes); make one with "
        + "'\(command)'.")
  }
}

/// The access of other users to a file with a secret.
struct FileAccess {
  let path: String
  /// The permissions, as in `st_mode`.
  let mode: mode_t
  /// Whether the file is on a read-only mount, as an orchestrator's secrets are.
  let isOnReadOnlyMount: Bool

  /// Returns a sentence for the operator if all users can read the file.
  /// - Parameter kind: What the file is, such as `key file`.
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
