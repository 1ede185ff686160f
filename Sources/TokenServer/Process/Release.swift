/// Which release of the program this is.
public enum Release {
  /// Its version (semver.org).
  public static let version: StaticString = "0.1.0"
}
