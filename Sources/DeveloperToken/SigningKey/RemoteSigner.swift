import Bytes
import Cryptography
package import Dispatch
import Locks

/// A signer outside of the server, which alone has the private key: an ssh-agent, or a command. The server has the
/// public half, and verifies each signature before use. Signing blocks, so no event loop may call it.
public final class RemoteSigner: Sendable {
  /// Who signs.
  public enum Place: Sendable, Hashable {
    /// An agent that listens on this Unix-domain socket (draft-ietf-sshm-ssh-agent).
    case agent(socket: String)
    /// A program with its arguments. It reads what it signs from standard input.
    case command([String])
  }

  /// Who signs.
  public let place: Place
  /// The longest time of one signature.
  public let timeout: Duration
  let publicKey: PublicKeyFile
  /// Where callers' signatures are made one after the other, so that no event loop waits.
  package let queue = DispatchQueue(label: "signer")
  private let lastFailure = Locked<(error: RemoteSignerError, time: ContinuousClock.Instant)?>(nil)
  private let recovered = Locked(false)
  /// How long a failure counts. A signer that is down is not asked by each request.
  private let failureLifetime: Duration

  init(_ place: Place, publicKey: PublicKeyFile, timeout: Duration, failureLifetime: Duration = .seconds(1)) {
    (self.place, self.publicKey) = (place, publicKey)
    (self.timeout, self.failureLifetime) = (timeout, failureLifetime)
  }

  /// The error of the last signature; nil if it succeeded.
  public var failure: RemoteSignerError? { lastFailure.withLock { $0?.error } }

  /// Ends the commands that run, at the end of the server, and those that start later.
  public static func endCommands() { Running.endAll() }

  /// Signs and verifies once. Throws if the signer is of no use, or soon after `isWanted` has returned false.
  public func probe(while isWanted: @escaping () -> Bool = { true }) throws(RemoteSignerError) {
    _ = try signature(of: Array("A probe of the signing key.".utf8), while: isWanted)
  }

  /// Tries again, on another thread, if the last signature failed, so that it is known when the signer is back.
  public func retry() { if failure != nil { queue.async { try? self.probe() } } }

  /// Returns whether the signer has signed after a failure, once for each time.
  public func takeRecovery() -> Bool {
    recovered.withLock { recovered in
      defer { recovered = false }
      return recovered
    }
  }

  /// The error of the last signature, if it counts still: then the signer is not asked.
  var presentFailure: RemoteSignerError? {
    guard let failed = lastFailure.withLock({ $0 }), .now - failed.time < failureLifetime else { return nil }
    return failed.error
  }

  /// Returns the signer's signature of `input`, which the public key has verified.
  func signature(
    of input: [UInt8], while isWanted: @escaping () -> Bool = { true }
  ) throws(RemoteSignerError) -> ECDSASignature {
    if let error = presentFailure { throw error }
    do throws(RemoteSignerError) {
      let time = SigningTime(of: place, timeout, while: isWanted)
      let signature = try unverifiedSignatures(of: input, within: time).first {
        publicKey.verificationKey.verifies($0, of: input.span)
      }
      guard let signature else {
        throw RemoteSignerError(
          "\(place) gives a signature that does not verify with musickit.signer.publicKeyFile: it is by another key, or not over SHA-256.",
          isTemporary: false)
      }
      let hadFailed = lastFailure.withLock { last in
        defer { last = nil }
        return last != nil
      }
      if hadFailed { recovered.withLock { $0 = true } }
      return signature
    } catch {
      recovered.withLock { $0 = false }
      lastFailure.withLock { $0 = (error, .now) }
      throw error
    }
  }

  /// Returns the signatures that the response of the signer can be read as.
  private func unverifiedSignatures(
    of input: [UInt8], within time: SigningTime
  ) throws(RemoteSignerError) -> [ECDSASignature] {
    switch place {
    case .agent(let socket):
      let connection = try AgentConnection(to: socket, within: time)
      return [try connection.signature(of: input, by: publicKey.point)]
    case .command(let arguments):
      let output = try SigningCommand(arguments).output(for: input, within: time)
      let signatures = SigningCommand.signatures(in: output)
      guard !signatures.isEmpty else {
        let found = output.isEmpty ? "nothing" : "\(output.count) bytes that are no signature"
        throw RemoteSignerError(
          "\(place) has printed \(found); it must print an ES256 signature as DER or as 64 bytes, without a line end, or "
            + "either in base64.", isTemporary: false)
      }
      return signatures
    }
  }
}

extension RemoteSigner.Place: CustomStringConvertible {
  /// The beginning of a sentence.
  public var description: String {
    switch self {
    case .agent(let socket): "The agent at \(Printable.quote(socket, limit: 107)) (musickit.signer.agent)"
    // The arguments may have a secret.
    case .command(let arguments):
      "The command \(Printable.quote(arguments.first ?? "", limit: 255)) (musickit.signer.command)"
    }
  }
}

/// The reason why a signer outside of the server has not signed.
public struct RemoteSignerError: Error, Sendable, Hashable, CustomStringConvertible {
  /// One sentence or two for the operator.
  public let description: String
  /// Whether the signer may sign later with the same settings.
  public let isTemporary: Bool

  init(_ description: String, isTemporary: Bool) { (self.description, self.isTemporary) = (description, isTemporary) }
}

/// The time of one signature. It ends early when the signature is not wanted any more.
struct SigningTime {
  let place: RemoteSigner.Place
  private let timeout: Duration
  private let isWanted: () -> Bool
  private let end: ContinuousClock.Instant

  init(of place: RemoteSigner.Place, _ timeout: Duration, while isWanted: @escaping () -> Bool = { true }) {
    (self.place, self.timeout, self.isWanted, end) = (place, timeout, isWanted, .now + timeout)
  }

  var unwanted: RemoteSignerError { RemoteSignerError("\(place) is not waited for any more.", isTemporary: true) }

  /// Returns the milliseconds of the next wait, for poll(2): few, so that the end of the wish is noticed. Throws if the
  /// time is over.
  func nextWait(atMost limit: Int32 = 100) throws(RemoteSignerError) -> Int32 {
    guard isWanted() else { throw unwanted }
    let rest = Int32(clamping: Int64(((end - .now) / .milliseconds(1)).rounded(.up)))
    if rest > 0 { return min(limit, rest) }
    let milliseconds = Int(timeout / .milliseconds(1))
    let text = milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(milliseconds) ms"
    throw RemoteSignerError(
      "\(place) has not signed within \(text); find out what it waits for, or raise musickit.signer.timeout.",
      isTemporary: true)
  }
}
