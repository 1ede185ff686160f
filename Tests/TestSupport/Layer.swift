import Glibc
public import Testing

/// The layers of the tests. `make test-unit` runs only tests of the modules' own code; `make test` runs everything.
public enum Layer {
  /// Whether only unit tests run: those that start no program and let no real second pass.
  public static let isUnit = unsafe getenv("TEST_LAYER").map { unsafe String(cString: $0) } == "unit"
}

extension Trait where Self == ConditionTrait {
  /// Leaves a test out of `make test-unit`, because it starts other programs. A unit test that does so fails.
  public static var otherPrograms: ConditionTrait { .disabled(if: Layer.isUnit, "It starts other programs.") }

  /// Leaves a test out of `make test-unit`, because real seconds must pass for what it shows.
  public static var realSeconds: ConditionTrait { .disabled(if: Layer.isUnit, "Real seconds pass.") }
}
