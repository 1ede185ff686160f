import Bytes
import CPlatform
import Cryptography
// For `environ`, a C variable that Swift reports as a data race. No thread of a running server changes it.
@unsafe @preconcurrency import Glibc
import Locks
import Synchronization

/// A command that signs: it gets the bytes on standard input, and writes the signature to standard output. It blocks.
/// It runs without a shell, in a process group of its own, with three descriptors and few variables.
struct SigningCommand {
  private let arguments: [String]
  private var place: RemoteSigner.Place { .command(arguments) }

  /// The most bytes of standard output. A signature in base64 has about 100.
  private static let longestOutput = 1024
  /// The most bytes of standard error that an error quotes. The rest is read and dropped.
  private static let longestComplaint = 200

  /// The variables that the command gets: what programs and the command-line tools of key services need. The server's
  /// own settings may be secrets, so the command gets none of them.
  private static let variables = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "HTTPS_PROXY", "https_proxy", "NO_PROXY",
    "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "OPENSSL_MODULES", "SSH_AUTH_SOCK", "GNUPGHOME",
    "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
  ]
  private static let prefixes = ["AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_", "VAULT_", "PKCS11_", "SOFTHSM2_", "TPM2"]

  init(_ arguments: [String]) { self.arguments = arguments }

  /// Runs the command, and returns what it has printed once it has ended with 0.
  func output(for input: [UInt8], within time: SigningTime) throws(RemoteSignerError) -> [UInt8] {
    Orphans.reap()
    let (output, complaint) = (try Pipe(place), try Pipe(place))
    let process = try start(input, output, complaint)
    guard Running.add(process) else {
      Orphans.reap(process)
      throw cannotStart(EAGAIN)
    }
    var streams = Streams()
    do throws(RemoteSignerError) {
      try read(&streams, output, complaint, within: time)
      try awaitEnd(of: process, within: time)
    } catch {
      Running.end(process)
      Orphans.reap(process)
      throw error
    }
    // Before the process is reaped, so that the number of the group is still its own.
    Running.end(process)
    var status: Int32 = 0
    while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
    streams.readComplaint(complaint.reading)
    guard status == 0 else { throw Running.isOver ? time.unwanted : failed(status, streams.complaint) }
    return streams.output
  }

  private func start(_ input: [UInt8], _ output: Pipe, _ complaint: Pipe) throws(RemoteSignerError) -> pid_t {
    let file = cplatform_memory_file()
    guard file >= 0 else { throw cannotStart(errno) }
    defer { close(file) }
    guard unsafe input.withUnsafeBytes({ unsafe write(file, $0.baseAddress, $0.count) }) == input.count,
      lseek(file, 0, SEEK_SET) == 0
    else { throw cannotStart(errno) }
    var process: pid_t = 0
    let code = unsafe withCStrings(arguments) { arguments in
      unsafe withCStrings(Self.environment()) { environment in
        unsafe cplatform_spawn(arguments, environment, [file, output.writing, complaint.writing], &process)
      }
    }
    guard code == 0 else { throw cannotStart(code) }
    output.closeWriting()
    complaint.closeWriting()
    return process
  }

  private struct Streams {
    var output: [UInt8] = []
    var complaint: [UInt8] = []

    /// Reads what is there. Returns false at the end.
    static func read(_ descriptor: Int32, _ take: (ArraySlice<UInt8>) -> Void) -> Bool {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
      if count > 0 { take(buffer[..<count]) }
      return count > 0 || count < 0 && (errno == EAGAIN || errno == EINTR)
    }

    @discardableResult
    mutating func readComplaint(_ descriptor: Int32) -> Bool {
      Self.read(descriptor) { complaint += $0.prefix(longestComplaint - complaint.count) }
    }
  }

  /// Reads until the command has closed its standard output.
  private func read(
    _ streams: inout Streams, _ output: Pipe, _ complaint: Pipe, within time: SigningTime
  ) throws(RemoteSignerError) {
    var entries = [output, complaint].map { pollfd(fd: $0.reading, events: Int16(POLLIN), revents: 0) }
    while true {
      guard unsafe poll(&entries, 2, try time.nextWait()) > 0 else { continue }
      if entries[1].revents != 0, !streams.readComplaint(complaint.reading) { entries[1].fd = -1 }
      guard entries[0].revents != 0 else { continue }
      let hasMore = Streams.read(output.reading) { streams.output += $0 }
      guard streams.output.count <= Self.longestOutput else {
        throw RemoteSignerError(
          "\(place) has printed more than \(Self.longestOutput) bytes, which is no signature.", isTemporary: false)
      }
      if !hasMore { return }
    }
  }

  /// Waits until the process has ended, and leaves it to be reaped. No event of poll(2) tells it.
  private func awaitEnd(of process: pid_t, within time: SigningTime) throws(RemoteSignerError) {
    var pause: Int32 = 1
    while true {
      var information = unsafe siginfo_t()
      // Zero while the process runs (waitid(2)). If it is not there, the server was started with SIGCHLD ignored.
      let isThere = unsafe waitid(P_PID, id_t(process), &information, WEXITED | WNOHANG | WNOWAIT) == 0
      if unsafe !isThere || information.si_signo != 0 { return }
      poll(nil, 0, try time.nextWait(atMost: pause))
      pause = min(pause * 2, 20)
    }
  }

  private func failed(_ status: Int32, _ complaint: [UInt8]) -> RemoteSignerError {
    let signal = status & 0x7F
    let end = signal == 0 ? "with status \(status >> 8 & 0xFF)" : "by signal \(signal)"
    let text = String(decoding: complaint.map { (0x20...0x7E).contains($0) ? $0 : 0x20 }, as: UTF8.self)
    // A long word may be of a key or a password.
    let words = text.split(separator: " ").map { $0.utf8.count < 32 ? $0 : "***" }.joined(separator: " ")
    let isSecret = words.contains("PRIVATE KEY") || words.contains("-----")
    let quotation = words.isEmpty || isSecret ? "" : ": \(Printable.quote(words, limit: Self.longestComplaint))"
    return RemoteSignerError(
      "\(place) has ended \(end)\(quotation). Run it as the server's user, with a file as standard input, to see why.",
      isTemporary: true)
  }

  private func cannotStart(_ code: Int32) -> RemoteSignerError {
    let isTemporary = [EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY, ENOSPC].contains(code)
    return .init("\(place) cannot be started: \(unsafe String(cString: strerror(code))).", isTemporary: isTemporary)
  }

  private static func environment() -> [String] {
    var entries: [String] = []
    var next = unsafe environ
    while let entry = unsafe next.pointee {
      let text = unsafe String(cString: entry)
      let name = text.prefix { $0 != "=" }
      if variables.contains(String(name)) || prefixes.contains(where: name.hasPrefix) { entries.append(text) }
      unsafe next += 1
    }
    return entries.contains { $0.hasPrefix("PATH=") } ? entries : entries + ["PATH=/usr/local/bin:/usr/bin:/bin"]
  }

  /// Returns the signatures that an output can be read as: 64 bytes, DER, or either in base64 or base64url.
  static func signatures(in output: [UInt8]) -> [ECDSASignature] {
    let direct = signatures(as: output)
    guard direct.isEmpty else { return direct }
    let text = output.filter { $0 != 0x20 && !(0x09...0x0D).contains($0) }
    var bytes: [UInt8] = []
    var isBase64 = false
    bytes.append(addingCapacity: text.count) { isBase64 = Base64.decodePasted(text.span, into: &$0) }
    return isBase64 ? signatures(as: bytes) : []
  }

  private static func signatures(as bytes: [UInt8]) -> [ECDSASignature] {
    [ECDSASignature(raw: bytes.span), ECDSASignature(der: bytes.span)].compactMap { $0 }
  }
}

/// A pipe whose reading end does not block.
private final class Pipe {
  let reading: Int32
  private(set) var writing: Int32

  init(_ place: RemoteSigner.Place) throws(RemoteSignerError) {
    var ends: [Int32] = [-1, -1]
    guard unsafe cplatform_pipe(&ends) == 0 else {
      throw RemoteSignerError("\(place) cannot be started: there is no pipe for it.", isTemporary: true)
    }
    (reading, writing) = (ends[0], ends[1])
    _ = fcntl(reading, F_SETFL, O_NONBLOCK)
  }

  deinit {
    close(reading)
    closeWriting()
  }

  func closeWriting() {
    if writing >= 0 { close(writing) }
    writing = -1
  }
}

/// The processes that are not reaped yet, each the leader of its group.
enum Running {
  /// Whether the server ends: the processes are killed then, and have not failed.
  fileprivate static var isOver: Bool { over.load(ordering: .sequentiallyConsistent) }
  private static let over = Atomic(false)

  /// Returns false if it has ended the group, because too many run.
  fileprivate static func add(_ process: pid_t) -> Bool {
    let hasRoom = cplatform_group_began(process)
    if isOver || !hasRoom { kill(-process, SIGKILL) }
    return hasRoom
  }

  /// Ends the group of a process, which is reaped next: its number may then be another's.
  fileprivate static func end(_ process: pid_t) {
    cplatform_group_ended(process)
    kill(-process, SIGKILL)
  }

  /// Ends all, at the end of the server.
  static func endAll() {
    over.store(true, ordering: .sequentiallyConsistent)
    cplatform_kill_groups()
  }
}

/// The processes that were killed and not reaped yet.
private enum Orphans {
  private static let processes = Locked<[pid_t]>([])

  /// Reaps those that have ended, and one that ends within a moment, unless the kernel waits for a device for it.
  static func reap(_ killed: pid_t? = nil) {
    var waiting = processes.withLock { all in
      defer { all = [] }
      return all
    }
    if let killed { waiting.append(killed) }
    let deadline = ContinuousClock.now + .seconds(1)
    repeat {
      waiting.removeAll { waitpid($0, nil, WNOHANG) != 0 }
      guard killed != nil, !waiting.isEmpty else { break }
      poll(nil, 0, 1)
    } while ContinuousClock.now < deadline
    processes.withLock { $0 += waiting }
  }
}

/// Lends an array of C strings that ends with a null pointer.
private func withCStrings<Result>(_ strings: [String], _ body: ([UnsafePointer<CChar>?]) -> Result) -> Result {
  let copies = unsafe strings.map { unsafe UnsafePointer(strdup($0)) } + [nil]
  defer { unsafe copies.forEach { unsafe free(UnsafeMutablePointer(mutating: $0)) } }
  return unsafe body(copies)
}
