import Glibc

/// The fuzz targets: one for each entry point that processes untrusted bytes. To add one: a line here, its function in a
/// file of its name, seeds in Corpus/<name>/. `run` reads this list.
private let targets: KeyValuePairs<String, @Sendable ([UInt8]) -> Void> = [
  "FuzzCacheFields": fuzzCacheFields,
  "FuzzCatalogPath": fuzzCatalogPath,
  "FuzzChunked": fuzzChunked,
  "FuzzForwarded": fuzzForwarded,
  "FuzzGroupQuota": fuzzGroupQuota,
  "FuzzHTTP2Client": fuzzHTTP2Client,
  "FuzzHTTP2Server": fuzzHTTP2Server,
  "FuzzInspector": fuzzInspector,
  "FuzzJSON": fuzzJSON,
  "FuzzJWT": fuzzJWT,
  "FuzzKeySet": fuzzKeySet,
  "FuzzOrigin": fuzzOrigin,
  "FuzzProxyHeader": fuzzProxyHeader,
  "FuzzRESP": fuzzRESP,
  "FuzzRequestHead": fuzzRequestHead,
  "FuzzResponse": fuzzResponse,
  "FuzzSettings": fuzzSettings,
  "FuzzSharedEntry": fuzzSharedEntry,
  "FuzzSigningKey": fuzzSigningKey,
  "FuzzTLSServer": fuzzTLSServer,
  "FuzzTraceContext": fuzzTraceContext,
]

/// The target that the environment names: libFuzzer has the arguments for itself.
private let target: @Sendable ([UInt8]) -> Void = {
  let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
  guard let target = targets.first(where: { $0.key == name }) else { fatalError("FUZZ_TARGET names none: \(name)") }
  return target.value
}()

/// Entry point of libFuzzer: each target traps if a promise of the code under test is broken.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  target(Array(UnsafeBufferPointer(start: start, count: count)))
  return 0
}

/// Returns where an input is split into two parts. It follows from the input, so that a crash can be repeated.
func cut(_ bytes: [UInt8]) -> Int {
  (bytes.reduce(0) { $0 &* 31 &+ Int($1) } & .max) % (bytes.count + 1)
}

/// Encodes base64url bit by bit, without the encoder under test.
func base64URL(_ bytes: [UInt8]) -> [UInt8] {
  let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
  return stride(from: 0, to: bytes.count * 8, by: 6).map { bit in
    let (index, shift) = (bit / 8, bit % 8)
    let pair = UInt16(bytes[index]) << 8 | (index + 1 < bytes.count ? UInt16(bytes[index + 1]) : 0)
    return alphabet[Int(pair >> UInt16(10 - shift)) & 63]
  }
}
