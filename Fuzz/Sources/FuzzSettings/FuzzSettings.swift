import ServerSettings

/// Entry point of libFuzzer: reads the input as a setting's value in JSON5. Traps unless every error is one safe line.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSettings(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let text = String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
  let input = SettingsInput(
    environment: ["ACCESS_ANONYMOUS": text, "SERVER_TRUSTED_PROXIES": text, "SERVER_LIMITS": text, "TOKEN_TTL": text],
    host: HostFacts(openFiles: 1024, cores: 2, logsToTerminal: false))
  do {
    _ = try Settings.load(input)
    preconditionFailure("there is no key, so there must be an error")
  } catch {
    for error in error.errors {
      let sentence = error.description
      precondition(sentence.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }, "one line")
      precondition(sentence.utf8.count < 4096, "no longer than a line may be")
    }
  }
  return 0
}
