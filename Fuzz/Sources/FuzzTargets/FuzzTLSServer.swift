import Glibc
import TLS

/// Feeds the input to a server at once, byte by byte and in two parts. Traps unless all
/// results agree and nothing is decrypted, because no fixed input can complete a handshake.
func fuzzTLSServer(_ bytes: [UInt8]) {
  let whole = verdict(on: bytes, arrivals: CollectionOfOne(bytes.count))
  precondition(verdict(on: bytes, arrivals: 0...bytes.count) == whole, "byte by byte")
  precondition(verdict(on: bytes, arrivals: [cut(bytes), bytes.count]) == whole, "in two parts")
}

/// Returns the error that ended the session, or nil if the session waits for more bytes.
private func verdict(on bytes: [UInt8], arrivals: some Sequence<Int>) -> TLSError? {
  do {
    let session = try TLSSession(context)
    var (plaintext, outgoing): ([UInt8], [UInt8]) = ([], [])
    var start = 0
    defer {
      precondition(plaintext.isEmpty)
      precondition(outgoing.count < 8192, "a stranger gets one flight and one alert at most")
    }
    for end in arrivals {
      let phase = try session.receive(
        bytes.span.extracting(start..<end), plaintext: &plaintext, outgoing: &outgoing)
      precondition(phase != .established)
      start = end
    }
    return nil
  } catch {
    precondition(error.cause != .internalFailure, "\(error)")
    return error
  }
}

/// The context, created once with its own certificate.
private let context: TLSContext = {
  let name = "/tmp/FuzzTLSServer.\(getpid())"
  let (certificateFile, keyFile) = ("\(name).crt", "\(name).key")
  defer {
    unlink(certificateFile)
    unlink(keyFile)
  }
  let command =
    ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    + ["-subj", "/CN=localhost", "-keyout", keyFile, "-out", certificateFile]
  var arguments = command.map { strdup($0) } + [nil]
  defer { arguments.forEach { free($0) } }
  var child: pid_t = 0
  var status: CInt = 0
  precondition(posix_spawnp(&child, "openssl", nil, nil, &arguments, environ) == 0)
  precondition(waitpid(child, &status, 0) == child && status == 0)
  do {
    return try TLSContext(certificate: PEMFile(certificateFile), key: PEMFile(keyFile))
  } catch {
    preconditionFailure("\(error)")
  }
}()
