// swift-tools-version: 6.3

import PackageDescription

let package = Package(
  name: "fuzz",
  products: [.executable(name: "FuzzTargets", targets: ["FuzzTargets"])],
  dependencies: [.package(name: "musickit-token-server", path: "..")],
  targets: [
    .executableTarget(
      name: "FuzzTargets",
      dependencies: [.product(name: "ServerModules", package: "musickit-token-server")],
      // libFuzzer provides main, so the target must not.
      swiftSettings: [.unsafeFlags(["-parse-as-library"])])
  ],
  swiftLanguageModes: [.v6]
)
