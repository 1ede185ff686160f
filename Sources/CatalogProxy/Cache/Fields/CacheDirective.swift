/// One element of `Cache-Control` (RFC 9111 §5.2), as ranges of the value it stands in.
struct CacheDirective: Equatable {
  /// What stands behind `=`.
  enum Argument: Equatable {
    /// There is no `=`.
    case absent
    /// A token, or what is between the quotes of a quoted string: recipients are to take both for any argument.
    case present(Range<Int>)
    /// Something that the grammar has no place for.
    case malformed
    /// A quoted string that does not end, so that it may have swallowed other elements.
    case unterminated
  }

  /// Its name; empty where there is no name.
  let name: Range<Int>
  /// Its argument.
  let argument: Argument

  /// Its argument as a length of time; nil if the argument is not a length of time.
  func seconds(in bytes: Span<UInt8>) -> Int? {
    guard case .present(let range) = argument else { return nil }
    return FieldText.deltaSeconds(range, of: bytes)
  }
}

extension FieldScanner {
  /// The next element that is not empty; nil at the end.
  ///
  /// Garbage costs no more than the element that it stands in. Of such a one the name still counts, since that only makes
  /// the cache more careful.
  mutating func directive(in bytes: Span<UInt8>) -> CacheDirective? {
    while true {
      skipWhitespace(in: bytes)
      if isAtEnd(in: bytes) { return nil }
      if !take(",", in: bytes) { break }
    }
    let name = token(in: bytes)
    var argument = CacheDirective.Argument.absent
    if take("=", in: bytes) { argument = self.argument(in: bytes) }
    switch skip(past: ",", in: bytes) {
    case .nothing: break
    case .garbage: if argument != .unterminated { argument = .malformed }
    case .unterminatedString: argument = .unterminated
    }
    return CacheDirective(name: name, argument: argument)
  }

  private mutating func argument(in bytes: Span<UInt8>) -> CacheDirective.Argument {
    if !isAtEnd(in: bytes), bytes[index] == UInt8(ascii: "\"") {
      return quotedString(in: bytes).map { .present($0) } ?? .unterminated
    }
    let value = token(in: bytes)
    return value.isEmpty ? .malformed : .present(value)
  }
}
