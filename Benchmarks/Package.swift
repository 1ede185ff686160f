// swift-tools-version: 6.3

import PackageDescription

// What the cores cost without any socket: `swift run -c release` in this directory. `run` measures the whole server.
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
