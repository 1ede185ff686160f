import Bytes
import CPlatform
import Cryptography
import Glibc
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("A command that signs", .otherPrograms)
struct SigningCommandTests {
  private let directory: TemporaryDirectory
  private let keyFile: String
  private let key: SigningKey

  init() throws {
    directory = try TemporaryDirectory()
    let pair = try KeyPair()
    keyFile = try directory.write(pair.pem, to: "key.pem")
    key = try SigningKey(parsing: Samples.secret(pair.pem), keyID: Samples.keyID())
  }

  /// A signer with a script of the shell, which gets these arguments. `KEY` is the file of the private key.
  private func signer(
    _ script: String, _ arguments: [String] = [], timeout: Duration = .seconds(60)
  ) throws -> RemoteSigner {
    let file = try directory.write("#!/bin/sh\nKEY='\(keyFile)'\n\(script)\n", to: "sign", mode: 0o700)
    return try RemoteSigner(.command([file] + arguments), key, in: directory, timeout: timeout)
  }

  private func error(_ script: String, timeout: Duration = .seconds(60)) throws -> RemoteSignerError? {
    try signer(script, timeout: timeout).error()
  }

  @Test("is refused while sixteen others run, and runs when one has ended")
  func mostAtATime() async {
    await #expect(processExitsWith: .success) {
      // Far above the numbers that Linux gives to processes.
      let others = (1...16).map { Int32.max - $0 }
      for group in others { precondition(cplatform_group_began(group)) }
      let time = SigningTime(of: .command(["/bin/echo"]), .seconds(60))
      do throws(RemoteSignerError) {
        _ = try SigningCommand(["/bin/echo"]).output(for: [], within: time)
        preconditionFailure("It runs.")
      } catch { precondition(error.isTemporary && "\(error)".contains("cannot be started")) }
      cplatform_group_ended(others[7])
      let output = try SigningCommand(["/bin/echo"]).output(for: [], within: time)
      precondition(output == [UInt8(ascii: "\n")])
    }
  }

  @Test(
    "prints DER, or base64 of it, with or without line ends",
    arguments: [
      "openssl dgst -sha256 -sign $KEY", "openssl dgst -sha256 -sign $KEY | openssl base64",
      "openssl dgst -sha256 -sign $KEY | openssl base64 -A | tr '+/' '-_' | tr -d =",
      "openssl pkeyutl -sign -rawin -digest sha256 -inkey $KEY",
      "cat /dev/stdin | openssl dgst -sha256 -sign $KEY > /dev/stdout",
    ])
  func forms(_ script: String) throws {
    let signer = try signer(script)
    for count in [0, 1, 70_000] {
      let input = [UInt8](repeating: 7, count: count)
      let signature = try signer.signature(of: input)
      #expect(key.verificationKey.verifies(signature, of: input))
    }
  }

  @Test("prints 64 bytes, or base64 of them")
  func raw() throws {
    let input: [UInt8] = [1, 2, 3]
    let signature = try key.signature(of: input)
    let text = Base64.encode(signature.raw.span)
    for output in [signature.bytes, Array(text.utf8), Array("\(text)\r\n".utf8), signature.der] {
      let read = SigningCommand.signatures(in: output)
      #expect(read.contains { $0.bytes == signature.bytes })
    }
    for output in [[], Array("null\n".utf8), Array(text.utf8.dropLast(3)), signature.der + [0], [0x30, 0x06]] {
      #expect(SigningCommand.signatures(in: output).isEmpty)
    }
  }

  @Test("gets its arguments without a shell")
  func arguments() throws {
    let file = directory.path(of: "arguments")
    let signer = try signer(
      "printf '%s|' \"$@\" > \(file); openssl dgst -sha256 -sign $KEY", ["a b", "$(id)", "*", "ü"])
    try signer.probe()
    #expect(try TextFile.read(file) == "a b|$(id)|*|ü|")
  }

  @Test("gets three descriptors, a process group of its own, and no ignored or blocked signal")
  func descriptors() throws {
    // One that is not closed on exec.
    let leak = unsafe open("/dev/null", O_RDONLY)
    defer { close(leak) }
    let (files, status) = (directory.path(of: "files"), directory.path(of: "status"))
    let signer = try signer(
      """
      ls /proc/self/fd | tr '\\n' ' ' > \(files)
      while read -r line; do echo "$line"; done < /proc/$$/status > \(status)
      openssl dgst -sha256 -sign $KEY
      """)
    try signer.probe()
    // The fourth is that of ls.
    #expect(try TextFile.read(files) == "0 1 2 3 ")
    let lines = try TextFile.read(status).split(separator: "\n")
    func value(_ name: String) -> Substring? {
      lines.first { $0.hasPrefix("\(name):") }?.split(whereSeparator: \.isWhitespace).last
    }
    for name in ["SigBlk", "SigIgn"] {
      // The C library has the two signals above 31 for itself.
      #expect(value(name).flatMap { UInt64($0, radix: 16) }.map { $0 & 0x7FFF_FFFF } == 0)
    }
    #expect(value("NSpgid") != nil && value("NSpgid") == value("NSpid"))
  }

  @Test(
    "that is hostile gives an error",
    arguments: [
      (
        "exit 0",
        "has printed nothing; it must print an ES256 signature as DER or as 64 bytes, without a line end, or either in "
          + "base64."
      ),
      ("head -c 64 /dev/zero; echo", "has printed 65 bytes that are no signature; it must print an ES256 signature "),
      ("echo no", "has printed 3 bytes that are no signature; it must print an ES256 signature as DER or as 64 bytes"),
      ("yes", "has printed more than 1024 bytes, which is no signature."),
      ("head -c 1025 /dev/zero", "has printed more than 1024 bytes, which is no signature."),
      (
        "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 2>&- | openssl dgst -sha256 -sign /dev/stdin "
          + "/dev/null",
        "gives a signature that does not verify with musickit.signer.publicKeyFile: it is by another key, or not over SHA-256."
      ),
      ("printf '\\033[31mno\\tkey\\r\\n  \\0here\\n' >&2; exit 3", "has ended with status 3: “[31mno key here”."),
      (
        "cat $KEY >&2; exit 1",
        "has ended with status 1. Run it as the server's user, with a file as standard input, to see why."
      ),
      ("echo https://me:password@kms >&2; exit 1", "has ended with status 1: (23 bytes)."),
      (
        "yes no | head -c 100000 >&2; exit 1",
        "has ended with status 1: “\(Array(repeating: "no", count: 67).joined(separator: " "))”."
      ),
      ("echo key: $(sed -n 2p $KEY) >&2; exit 1", "has ended with status 1: “key: ***”."),
      ("kill -9 $$", "has ended by signal 9."),
      ("openssl dgst -sha256 -sign $KEY; exit 1", "has ended with status 1."),
    ])
  func hostile(_ script: String, _ sentence: String) throws {
    let error = try #require(try error(script))
    #expect(error.description.contains("/sign” (musickit.signer.command) \(sentence)"), "\(error)")
    #expect(error.isTemporary == error.description.contains("has ended"))
  }

  @Test("that writes much to standard error may still sign")
  func chatty() throws {
    #expect(try error("head -c 1000000 /dev/zero >&2; openssl dgst -sha256 -sign $KEY") == nil)
  }

  @Test(
    "that hangs is killed with all that it has started",
    arguments: ["wait", "exec >&-; wait", "openssl dgst -sha256 -sign $KEY; exec >&-; wait", "yes >&2"])
  func hangs(_ end: String) throws {
    let file = directory.path(of: "processes")
    // The signal is one that the processes ignore.
    let script = "trap '' TERM; sleep 1000 & echo $! $$ > \(file); \(end)"
    var processes: [pid_t] = []
    // On a busy machine the shell may need more time to begin.
    for seconds in [1, 8, 64] where processes.isEmpty {
      let error = try #require(try error(script, timeout: .seconds(seconds)))
      #expect(error.description.contains("has not signed within \(seconds) s; find out what it waits for, or raise "))
      #expect(error.isTemporary)
      processes = ((try? TextFile.read(file)) ?? "").split(whereSeparator: \.isWhitespace).compactMap { pid_t($0) }
    }
    #expect(processes.count == 2)
    // The command itself has been reaped. Its child belongs to the system's first process, which may leave a zombie.
    #expect(kill(processes[1], 0) == -1 && errno == ESRCH)
    wait(for: "the end of the command's child") {
      guard let status = try? TextFile.read("/proc/\(processes[0])/stat") else { return true }
      return status.contains(") Z ")
    }
  }

  @Test("that ends and leaves a process behind signs, and the process ends")
  func leftBehind() throws {
    let file = directory.path(of: "process")
    #expect(
      try error("sleep 1000 >/dev/null 2>&1 & echo $! > \(file); openssl dgst -sha256 -sign $KEY") == nil)
    let process = try #require(pid_t(try TextFile.read(file).filter { !$0.isWhitespace }))
    wait(for: "the end of the process") {
      guard let status = try? TextFile.read("/proc/\(process)/stat") else { return true }
      return status.contains(") Z ")
    }
  }

  @Test("that cannot be started is an error of the settings")
  func absent() throws {
    let absent = try RemoteSigner(.command(["/none/sign"]), key, in: directory)
    let sentence = "The command “/none/sign” (musickit.signer.command) cannot be started: No such file or directory."
    #expect(absent.error()?.description == sentence)
    #expect(absent.error()?.isTemporary == false)
    let file = try directory.write("", to: "file", mode: 0o600)
    let denied = try RemoteSigner(.command([file]), key, in: directory)
    #expect(denied.error()?.description.hasSuffix("cannot be started: Permission denied.") == true)
  }
}
