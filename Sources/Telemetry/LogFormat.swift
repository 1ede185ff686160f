/// How a log line looks.
public enum LogFormat: String, Sendable, CaseIterable {
  /// One JSON object a line, for machines.
  case json
  /// Words and `key=value` pairs, for a terminal.
  case text
}
