import TestSupport
import Testing

@testable import DeveloperToken

@Suite("Text that is not a MusicKit key", .otherPrograms)
struct WrongKeyTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let text: @Sendable () -> String
    let reason: SigningKeyError.Reason
    let says: String

    init(
      _ name: String, _ kind: SigningKeyError.Reason, says: String,
      _ text: @autoclosure @escaping @Sendable () -> String
    ) {
      (testDescription, self.text, reason, self.says) = (name, text, kind, says)
    }
  }

  static let selfSigned = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj /CN=x"
  static let request = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj /CN=x"
  static let p256 = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"
  static let rsa = "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024"

  static func bare(_ pem: String) -> String { KeyFormTests.body(pem) }

  static let cases: [Case] = [
    Case("nothing", .wrongKind(.empty), says: "is empty", ""),
    Case("white space", .wrongKind(.empty), says: "is empty", " \r\n\\n\"\" "),
    Case("a certificate", .wrongKind(.certificate), says: "a certificate", Samples.openssl(selfSigned)),
    Case("a bare certificate", .wrongKind(.certificate), says: "a certificate", bare(Samples.openssl(selfSigned))),
    Case("a request", .wrongKind(.certificateRequest), says: "signing request", Samples.openssl(request)),
    Case("a bare request", .wrongKind(.certificateRequest), says: "signing request", bare(Samples.openssl(request))),
    Case(
      "a public key", .wrongKind(.publicKey), says: "a public key", Samples.openssl("\(p256) | openssl pkey -pubout")),
    Case(
      "a bare public key", .wrongKind(.publicKey), says: "a public key",
      bare(Samples.openssl("\(p256) | openssl pkey -pubout"))),
    Case("an RSA key", .wrongAlgorithm("RSA"), says: "RSA", Samples.openssl(rsa)),
    Case("a bare RSA key", .wrongAlgorithm("RSA"), says: "RSA", bare(Samples.openssl(rsa))),
    Case(
      "a traditional RSA key", .wrongKind(.rsaPrivateKey), says: "an RSA private key",
      Samples.openssl("\(rsa) | openssl rsa -traditional")),
    Case(
      "a bare traditional RSA key", .wrongKind(.rsaPrivateKey), says: "an RSA private key",
      bare(Samples.openssl("\(rsa) | openssl rsa -traditional"))),
    Case(
      "a P-384 key", .wrongAlgorithm("EC P-384"), says: "P-384",
      Samples.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384")),
    Case(
      "a secp256k1 key", .wrongAlgorithm("EC secp256k1"), says: "secp256k1",
      Samples.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1")),
    Case("an Ed25519 key", .wrongAlgorithm("Ed25519"), says: "Ed25519", Samples.openssl("genpkey -algorithm ED25519")),
    Case(
      "a SEC1 key", .wrongKind(.ecPrivateKey), says: "openssl pkcs8 -topk8",
      Samples.openssl("\(p256) | openssl ec")),
    Case(
      "a SEC1 key after its parameters", .wrongKind(.ecPrivateKey), says: "SEC1",
      Samples.openssl("ecparam -name prime256v1 -genkey")),
    Case("a bare SEC1 key", .wrongKind(.ecPrivateKey), says: "SEC1", bare(Samples.openssl("\(p256) | openssl ec"))),
    Case(
      "an encrypted key", .wrongKind(.encryptedPrivateKey), says: "encrypted",
      Samples.openssl("\(p256) | openssl pkcs8 -topk8 -passout pass:secret")),
    Case(
      "a bare encrypted key", .wrongKind(.encryptedPrivateKey), says: "encrypted",
      bare(Samples.openssl("\(p256) | openssl pkcs8 -topk8 -passout pass:secret"))),
    Case(
      "an encrypted SEC1 key", .wrongKind(.encryptedPrivateKey), says: "encrypted",
      Samples.openssl("\(p256) | openssl ec -aes128 -passout pass:secret")),
    Case("parameters", .wrongKind(.ecParameters), says: "EC parameters", Samples.openssl("ecparam -name prime256v1")),
    Case(
      "an OpenSSH key", .wrongKind(.opensshPrivateKey), says: "OpenSSH",
      "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"),
    Case("a finished token", .wrongKind(.jwt), says: "is a token (JWT)", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln"),
    Case(
      "a quoted token", .wrongKind(.jwt), says: "is a token (JWT)", "\"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln\"\n"),
    Case("a path", .wrongKind(.path), says: "musickit.keyFile", "/run/secrets/apple/music"),
    Case("a file name", .wrongKind(.path), says: "musickit.keyFile", "AuthKey_ABC123DEFG.p8"),
    Case("JSON", .wrongKind(.json), says: "JSON", #"{"key": "value"}"#),
    Case("two keys", .wrongKind(.severalBlocks), says: "several", Samples.p8 + Samples.p8),
    Case(
      "key and certificate", .wrongKind(.severalBlocks), says: "several", Samples.p8 + Samples.openssl(selfSigned)),
    Case(
      "a certificate chain", .wrongKind(.certificate), says: "a certificate",
      Samples.openssl(selfSigned) + Samples.openssl(selfSigned)),
    Case("prose", .wrongKind(.notAKey), says: "not a private key", "your key here!"),
    Case("base64 of prose", .wrongKind(.notAKey), says: "not a private key", KeyFormTests.base64("your key here!")),
    Case("UTF-16", .wrongKind(.utf16), says: "UTF-16", "-\0-\0-\0-\0-\0B\0E\0G\0I\0N\0"),
    Case("control characters", .wrongKind(.binary), says: "binary", "0\u{1}\u{2}\u{3}"),
    Case("no end line", .truncated, says: "truncated", String(Samples.p8.dropLast(28))),
    Case("no begin line", .truncated, says: "truncated", String(Samples.p8.dropFirst(28))),
    Case("an empty block", .truncated, says: "truncated", "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----"),
    Case(
      "a block of something else", .wrongKind(.otherPEM), says: "another kind",
      "-----BEGIN X-----\nAAAA\n-----END X-----\n"),
    Case(
      "a block that is not base64", .damaged, says: "damaged",
      "-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n"),
    Case("too much", .tooLarge(limit: 16_384), says: "larger than 16 KiB", String(repeating: "A", count: 16_385)),
  ]

  @Test("is refused with the name of its kind", arguments: cases)
  func refused(_ sample: Case) throws {
    let text = sample.text()
    let error = #expect(throws: SigningKeyError.self) {
      try SigningKey(parsing: Samples.secret(text), keyID: Samples.keyID())
    }
    #expect(error?.reason == sample.reason)
    #expect("\(try #require(error))".contains(sample.says))
  }

  @Test("is refused in DER: a PKCS#12 archive, and the key itself")
  func binaryFiles() throws {
    let directory = try TemporaryDirectory()
    let key = try directory.write(Samples.p8, to: "AuthKey_ABC123DEFG.p8")
    let kinds: [(String, KeyKind, String)] = [
      (
        "pkcs8 -topk8 -nocrypt -outform DER -in \(key)", .der, "pkcs8 -topk8 -nocrypt -inform DER -in FILE -out AuthKey"
      ),
      ("ec -outform DER -in \(key)", .der, "in binary (DER)"),
      ("pkcs12 -export -nocerts -inkey \(key) -passout pass:x", .pkcs12, "a PKCS#12 (.p12) file"),
      ("pkey -pubout -outform DER -in \(key)", .binary, "a binary file"),
    ]
    for (command, kind, words) in kinds {
      let path = directory.path + "/out"
      _ = Samples.openssl("\(command) -out \(path)")
      let error = #expect(throws: SigningKeyError.self) { try SigningKey.load(file: path, keyID: Samples.keyID()) }
      #expect(error?.reason == .wrongKind(kind), "\(command)")
      #expect("\(try #require(error))".contains(words))
    }
  }

  @Test("is refused when its private and public halves do not match")
  func mismatchedHalves() throws {
    let other = Samples.openssl("\(Self.p256)")
    let (mine, theirs) = (Base64Text.decode(Self.bare(Samples.p8)), Base64Text.decode(Self.bare(other)))
    // The last 65 bytes of such a PKCS#8 are the public point.
    let mixed = mine.dropLast(64) + theirs.suffix(64)
    let text = KeyFormTests.base64(bytes: Array(mixed))
    let error = #expect(throws: SigningKeyError.self) {
      try SigningKey(parsing: Samples.secret(text), keyID: Samples.keyID())
    }
    #expect(error?.reason == .probeFailed || error?.reason == .damaged)
  }
}
