import Cryptography
import DeveloperToken

/// Entry point of libFuzzer: takes the input for a key's text; whatever it is, it must be named and never repeated.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSigningKey(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
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
  return 0
}

/// The sentences so far: if they held bytes of their inputs, there would be no end to them. libFuzzer has one thread.
nonisolated(unsafe) private var sentences: Set<String> = []
