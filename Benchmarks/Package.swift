// swift-tools-version: 6.3

import PackageDescription

// CPU cost of the core modules, without sockets: `swift run -c release` here. `run` measures the whole server.
let package = Package(
  name: "benchmarks",
  dependencies: [.package(name: "musickit-token-server", path: "..")],
  targets: [
    .executableTarget(
      name: "CoreBenchmarks",
      dependencies: [.product(name: "ServerModules", package: "musickit-token-server")])
  ],
  swiftLanguageModes: [.v6]
)
