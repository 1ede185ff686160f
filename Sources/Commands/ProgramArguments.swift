import CPlatform

/// The arguments with which the system started the program.
///
/// `CommandLine.arguments` of a program with Swift's runtime in it searches memory backwards from `environ`, and has none
/// if a preloaded library set an environment variable before. The program would then run another command than the one
/// that was asked for.
public enum ProgramArguments {
  /// The name of the program, as its caller wrote it; empty if the caller gave none.
  public static let name = all.first ?? ""
  /// The arguments after the name. What is not UTF-8 is replaced by U+FFFD.
  public static let list = Array(all.dropFirst())

  private static let all: [String] = {
    var count: Int32 = 0
    let values = unsafe cplatform_arguments(&count)
    return (0..<Int(count)).compactMap { index in
      guard let value = unsafe values[index] else { return nil }
      return unsafe String(cString: value)
    }
  }()
}
