/// What the field lines of one name say.
public enum RequestFieldValue: Sendable, Equatable {
  /// The request does not have the field.
  case absent
  /// The request has one such field; the value comes without the white space around it.
  case single(ArraySlice<UInt8>)
  /// The request has several such fields.
  case repeated
}
