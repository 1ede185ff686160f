// swift-tools-version: 6.3

import PackageDescription

// One libFuzzer target for each entry point that processes untrusted bytes. To add a target: its name here, its entry
// point in Sources/<name>/, seeds in Corpus/<name>/. `run` reads this list.
let targets = [
  "FuzzCacheFields",
  "FuzzCatalogPath",
  "FuzzChunked",
  "FuzzForwarded",
  "FuzzGroupQuota",
  "FuzzHTTP2Client",
  "FuzzHTTP2Server",
  "FuzzInspector",
  "FuzzJSON",
  "FuzzJWT",
  "FuzzKeySet",
  "FuzzOrigin",
  "FuzzProxyHeader",
  "FuzzRESP",
  "FuzzRequestHead",
  "FuzzResponse",
  "FuzzSettings",
  "FuzzSharedEntry",
  "FuzzSigningKey",
  "FuzzTLSServer",
  "FuzzTraceContext",
]

let package = Package(
  name: "fuzz",
  products: targets.map { .executable(name: $0, targets: [$0]) },
  dependencies: [.package(name: "musickit-token-server", path: "..")],
  targets: targets.map { target in
    .executableTarget(
      name: target,
      dependencies: [.product(name: "ServerModules", package: "musickit-token-server")],
      // libFuzzer provides main, so the target must not.
      swiftSettings: [.unsafeFlags(["-parse-as-library"])])
  },
  swiftLanguageModes: [.v6]
)
