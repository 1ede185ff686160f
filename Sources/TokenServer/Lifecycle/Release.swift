/// The release of the program.
public enum Release {
  /// The version (semver.org).
  public static let version: StaticString = "0.1.0"
}
