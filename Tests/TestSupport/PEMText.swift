import COpenSSL

/// PEM text that an OpenSSL function writes.
struct PEMText {
  let text: String

  init(_ write: (OpaquePointer?) -> Int32) {
    let bio = unsafe BIO_new(BIO_s_mem())
    defer { unsafe BIO_free(bio) }
    var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    guard unsafe write(bio) == 1 else {
      text = ""
      return
    }
    let count = unsafe BIO_read(bio, &buffer, Int32(buffer.count))
    text = String(decoding: buffer.prefix(max(0, Int(count))), as: UTF8.self)
  }
}
