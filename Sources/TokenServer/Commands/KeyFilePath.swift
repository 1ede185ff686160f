/// The path that `--key-file` gives.
///
/// - Throws: If it is a key itself: whoever fails to open it would print it.
func keyFilePath(_ text: String) throws(InvalidValue) -> String {
  do {
    return try SettingType<String>.path.parse(.text(text))
  } catch {
    throw InvalidValue(problem: "--key-file \(error.problem)", remedy: error.remedy)
  }
}
