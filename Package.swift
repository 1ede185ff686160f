// swift-tools-version: 6.3

import PackageDescription

// Warnings are errors in CI only: a newer compiler's new warning must not break a stranger's build.
let warningsAreErrors = Context.environment["WARNINGS_AS_ERRORS"] == "1"

let strict: [SwiftSetting] =
  [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .strictMemorySafety(),
    // Lets a release specialize and inline functions of other modules: 4 % fewer instructions for a cached token.
    .unsafeFlags(["-cross-module-optimization"], .when(configuration: .release)),
  ] + (warningsAreErrors ? [.treatAllWarnings(as: .error)] : [])

// The commit that --version prints. `make release` sets it; everyday builds have none, so no commit recompiles anything.
let sourceRevision: [CSetting] =
  switch Context.environment["SOURCE_REVISION"] {
  case nil, "": []
  case let revision?: [.define("SOURCE_REVISION", to: "\"\(revision)\"")]
  }

let httpTypes: Target.Dependency = .product(name: "HTTPTypes", package: "swift-http-types")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let heap: Target.Dependency = .product(name: "HeapModule", package: "swift-collections")
let deque: Target.Dependency = .product(name: "DequeModule", package: "swift-collections")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

func module(
  _ name: String, _ dependencies: [Target.Dependency] = [], _ more: [SwiftSetting] = [], exclude: [String] = []
) -> Target {
  .target(
    name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict + more)
}

// Where a release leaves out the run-time checks for overlapping accesses (docs/decisions.md, 17): in the modules with
// confined classes on the path of a request, which make nearly all of them. Debug builds, and so all tests and fuzzers,
// have them everywhere.
let confined: [SwiftSetting] = [
  .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
]

// Optimized in debug builds too: what simulates hours of traffic, and the small modules that every test runs most. Without
// the optimizer the tests take half as long again; with it in every module, the build takes three times as long.
let hot: [SwiftSetting] = [.unsafeFlags(["-O"], .when(configuration: .debug))]

func tests(_ name: String, _ dependencies: [Target.Dependency], _ more: [SwiftSetting] = []) -> Target {
  .testTarget(name: name, dependencies: dependencies + ["TestSupport"], swiftSettings: strict + more)
}

let package = Package(
  name: "musickit-token-server",
  products: [
    .executable(name: "musickit-token-server", targets: ["musickit-token-server"]),
    // For Fuzz/ and Benchmarks/, packages of their own that see only products.
    .library(
      name: "ServerModules",
      targets: [
        "Access", "CatalogProxy", "Cryptography", "DeveloperToken", "HTTP1", "HTTP2", "HTTPCache", "HTTPMessages",
        "HTTPServer", "JSON", "Redis", "ServerSettings", "TLS", "Tracing", "UpstreamAdmission",
      ]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
    .package(url: "https://github.com/apple/swift-collections", exact: "1.6.0"),
    .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0", traits: []),
    .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
  ],
  targets: [
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    .target(name: "CPlatform"),
    .target(name: "CLockedMemory"),
    // The C compiler embeds data: what the emulator knows of Apple's API, and the files for browsers. So the program stays
    // one file.
    .target(name: "CEmbeddedFiles"),
    .target(name: "CSourceRevision", cSettings: sourceRevision),

    module("Bytes", [], hot),
    module("Cryptography", ["Bytes", "CLockedMemory", "COpenSSL", "JSON", "Locks"], hot),
    module("Locks"),
    module("Tracing", ["Bytes"]),
    module("JSON", ["Bytes"], hot),
    module("Memory", ["CPlatform", "Locks"], confined),
    module("EventLoop", ["Bytes", "CPlatform", "Locks", heap], confined),
    module("HTTP1", ["Bytes", httpTypes], hot),
    module("TLS", ["Bytes", "CLockedMemory", "COpenSSL", "Locks"], confined),
    module("HTTPMessages", ["Bytes", "HTTP1", "Memory", httpTypes]),
    module("HTTP2", ["CNghttp2", "CPlatform", "Bytes", "HTTP1", deque, httpTypes], confined),
    module(
      "HTTPServer",
      [
        "Bytes", "EventLoop", "HTTP1", "HTTP2", "HTTPMessages", "Locks", "Memory", "TLS", "Tracing", deque, httpTypes,
      ],
      confined),
    module("ClientTransport", ["EventLoop", "Memory", "TLS"], confined),
    module(
      "Redis", ["Bytes", "COpenSSL", "ClientTransport", "Cryptography", "EventLoop", "Memory", "TLS", deque], confined),
    module(
      "HTTPClient",
      [
        "Bytes", "ClientTransport", "EventLoop", "HTTP1", "HTTP2", "HTTPMessages", "Locks", "Memory", "TLS", deque,
        httpTypes,
      ],
      confined),
    module("HTTPCache", ["Bytes", "CZlib", "Cryptography", "HTTP1", "Locks", httpTypes]),
    module("UpstreamAdmission", ["Bytes", "HTTPMessages", deque, httpTypes], hot),
    module(
      "CatalogProxy",
      [
        "Bytes", "HTTP1", "HTTPCache", "HTTPMessages", "JSON", "Locks", "Memory", "Tracing", "UpstreamAdmission",
        httpTypes,
      ],
      confined),
    module(
      "MusicSandbox",
      [
        "Bytes", "CEmbeddedFiles", "CZlib", "DeveloperToken", "EventLoop", "HTTP1", "HTTPMessages", "JSON", "Locks",
        deque, httpTypes,
      ], exclude: ["Data"]),
    module(
      "DeveloperToken", ["Bytes", "COpenSSL", "CPlatform", "Cryptography", "HTTPMessages", "JSON", "Locks", deque]),
    module("Access", ["Bytes", "COpenSSL", "Cryptography", "HTTPMessages", "JSON", "Locks", httpTypes]),
    module("WebFiles", ["CEmbeddedFiles"], exclude: ["Module", "Resources"]),
    module("Telemetry", ["Bytes", "Locks", "Tracing", deque, logging], confined),
    module(
      "ServerSettings",
      [
        "Access", "Bytes", "Cryptography", "DeveloperToken", "EventLoop", "HTTP1", "HTTPClient", "HTTPMessages",
        "HTTPServer", "JSON", "TLS", "Telemetry", "Tracing", logging,
      ]),
    module(
      "TokenServer",
      [
        "Access", "Bytes", "CPlatform", "CatalogProxy", "Cryptography", "DeveloperToken", "EventLoop", "HTTP1",
        "HTTPCache", "HTTPClient", "HTTPMessages", "HTTPServer", "JSON", "Locks", "Memory", "Redis", "ServerSettings",
        "TLS", "Telemetry", "Tracing", "UpstreamAdmission", "WebFiles", deque, httpTypes, logging,
      ], confined),
    module(
      "Commands",
      [
        "Access", "Bytes", "CPlatform", "CatalogProxy", "Cryptography", "DeveloperToken", "EventLoop", "HTTP1",
        "HTTPCache", "HTTPClient", "HTTPMessages", "HTTPServer", "JSON", "Locks", "MusicSandbox", "Redis",
        "ServerSettings", "TLS", "TokenServer", "UpstreamAdmission", arguments, httpTypes,
      ]),
    .executableTarget(
      name: "musickit-token-server",
      dependencies: [
        "CSourceRevision", "Commands", "Cryptography", "TokenServer", arguments,
      ],
      swiftSettings: strict),

    .target(
      name: "TestSupport", dependencies: ["COpenSSL"], path: "Tests/TestSupport", swiftSettings: strict + hot),
    // Tests/instructions counts what it costs.
    .target(name: "CountedCalls", path: "Tests/CountedCalls"),
    .executableTarget(
      name: "ParserCost",
      dependencies: [
        "Access", "Bytes", "CatalogProxy", "CountedCalls", "Cryptography", "DeveloperToken", "EventLoop", "HTTP1",
        "HTTP2", "HTTPCache", "HTTPMessages", "HTTPServer", "JSON", "MusicSandbox", "ServerSettings", "TokenServer",
        "Tracing", httpTypes,
      ], path: "Tests/ParserCost", swiftSettings: strict + hot),
    // Writes the tables of the documents, and the example configuration.
    .executableTarget(
      name: "ReferenceTables",
      dependencies: [
        "DeveloperToken", "HTTPServer", "Memory", "ServerSettings", "Telemetry", "TokenServer", httpTypes, logging,
      ], path: "Tests/ReferenceTables", swiftSettings: strict),
    tests("LocksTests", ["Locks"]),
    tests("EventLoopTests", ["CPlatform", "EventLoop", "Locks"]),
    tests("HTTP1Tests", ["Bytes", "HTTP1", httpTypes]),
    tests("TLSTests", ["TLS", "CLockedMemory", "COpenSSL", "Locks"]),
    tests(
      "HTTPServerTests",
      ["HTTPServer", "EventLoop", "HTTP1", "HTTPMessages", "Locks", "Memory", "TLS", httpTypes]),
    tests("HTTP2Tests", ["Bytes", "HTTP1", "HTTP2", "CNghttp2", httpTypes]),
    tests(
      "HTTPClientTests",
      [
        "Bytes", "ClientTransport", "HTTPClient", "EventLoop", "HTTP1", "HTTP2", "HTTPMessages", "HTTPServer", "Locks",
        "Memory", "TLS", httpTypes,
      ]),
    tests("RedisTests", ["ClientTransport", "Cryptography", "EventLoop", "Locks", "Redis", "TLS"]),
    tests("HTTPCacheTests", ["Bytes", "CZlib", "Cryptography", "HTTP1", "HTTPCache", "HTTPMessages", httpTypes]),
    tests("UpstreamAdmissionTests", ["Bytes", "HTTPMessages", "UpstreamAdmission", heap, httpTypes], hot),
    tests(
      "CatalogProxyTests",
      [
        "Bytes", "CatalogProxy", "Cryptography", "HTTP1", "HTTPCache", "HTTPMessages", "JSON", "Locks", "Memory",
        "TokenServer", "Tracing", "UpstreamAdmission", httpTypes,
      ]),
    tests(
      "MusicSandboxTests",
      [
        "Bytes", "MusicSandbox", "CZlib", "DeveloperToken", "EventLoop", "HTTP1", "HTTPMessages",
        "Commands", "HTTPServer", "JSON", "Locks", "TLS", httpTypes,
      ]),
    tests("BytesTests", ["Bytes"]),
    tests("JSONTests", ["Bytes", "JSON"]),
    tests("MemoryTests", ["Memory"]),
    tests(
      "DeveloperTokenTests",
      ["Bytes", "CPlatform", "DeveloperToken", "CLockedMemory", "COpenSSL", "Cryptography", "HTTPMessages", "Locks"]),
    tests(
      "AccessTests", ["Access", "Bytes", "COpenSSL", "Cryptography", "DeveloperToken", "HTTPMessages", "JSON", "Locks"]),
    tests("TracingTests", ["Bytes", "Tracing"]),
    tests("TelemetryTests", ["Telemetry", "Locks", "Tracing", logging]),
    tests(
      "TokenServerTests",
      [
        "TokenServer", "Access", "Bytes", "Commands", "Cryptography", "DeveloperToken", "EventLoop", "HTTP1",
        "HTTPMessages", "HTTPServer", "JSON", "Locks", "Memory", "ServerSettings", "TLS", "Telemetry", "Tracing",
        "UpstreamAdmission", httpTypes, logging,
      ]),
    tests("CommandsTests", ["Commands", "ServerSettings", arguments]),
    tests("IntegrationTests", ["musickit-token-server", "Bytes", "JSON", "Locks"]),
  ],
  swiftLanguageModes: [.v6]
)
