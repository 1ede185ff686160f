/// What the field lines of one name say.
public enum RequestFieldValue: Sendable, Equatable {
  /// There is none.
  case absent
  /// There is one, with this value, white space around it removed.
  case single(ArraySlice<UInt8>)
  /// There are several.
  case repeated
}
