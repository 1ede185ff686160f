import Cryptography
import DeveloperToken

/// Parses the input as a key. Traps unless every error has a description without the input.
func fuzzSigningKey(_ bytes: [UInt8]) {
  do {
    let keyID = try KeyID("ABC123DEFG")
    do {
      let key = try SigningKey(parsing: SecretBytes(copying: bytes.span), keyID: keyID)
      precondition(key.publicKeyPEM.hasPrefix("-----BEGIN PUBLIC KEY-----"))
    } catch {
      precondition(!error.description.isEmpty && error.description.utf8.count < 400)
      precondition(sentences.insert(error.description).inserted == false || sentences.count < 200, "repeats its input")
    }
  } catch {
    fatalError("\(error)")
  }
}

/// The descriptions so far. If they contained input, their number would have no bound. libFuzzer has only one thread.
nonisolated(unsafe) private var sentences: Set<String> = []
