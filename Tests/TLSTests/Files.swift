import TLS
import TestSupport

/// Certificate and key files for a context.
struct Files {
  let directory: TemporaryDirectory
  let certificateFile: String
  let keyFile: String

  /// A self-signed certificate for `localhost`.
  init(_ algorithm: KeyPair.Algorithm = .p256) throws {
    try self.init(Certificate(key: KeyPair(algorithm)))
  }

  /// The certificate and its key, and then the rest of the chain.
  init(_ certificate: Certificate, chain: [Certificate] = [], keyMode: UInt32 = 0o600) throws {
    directory = try TemporaryDirectory()
    let pem = ([certificate] + chain).map(\.pem).joined()
    certificateFile = try directory.write(pem, to: "certificate.pem")
    keyFile = try directory.write(certificate.key.pem, to: "key.pem", mode: keyMode)
  }

  /// A context with these files.
  func context(
    clientCAFile: String? = nil, applicationProtocols: [String] = ["http/1.1"], resuming previous: TLSContext? = nil,
    limits: TLSLimits = TLSLimits()
  ) throws -> TLSContext {
    try TLSContext(
      certificateFile: certificateFile, keyFile: keyFile, clientCAFile: clientCAFile,
      applicationProtocols: applicationProtocols, resumingTicketsOf: previous, limits: limits)
  }
}

extension TLSContext {
  /// Reads the files at these paths, and loads and checks their contents.
  convenience init(
    certificateFile: String, keyFile: String, clientCAFile: String? = nil,
    applicationProtocols: [String] = ["http/1.1", "http/1.0"], resumingTicketsOf previous: TLSContext? = nil,
    limits: TLSLimits = TLSLimits(), now: @escaping @Sendable () -> Int = TLSContext.systemTime
  ) throws {
    try self.init(
      certificate: PEMFile(certificateFile), key: PEMFile(keyFile), clientCA: clientCAFile.map { try PEMFile($0) },
      applicationProtocols: applicationProtocols, resumingTicketsOf: previous, limits: limits, now: now)
  }
}

extension TLSClientContext {
  /// Reads the file at this path, and loads its authorities.
  convenience init(caFile: String, caSetting: String = "catalog.caFile") throws {
    try self.init(authorities: PEMFile(caFile), caSetting: caSetting)
  }
}
