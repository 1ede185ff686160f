extension RequestError {
  /// What is wrong with a byte that may stand nowhere in a head; nil for the others, and for CR, which may end a line.
  init?(forbidden byte: UInt8) {
    switch byte {
    case .carriageReturn: return nil
    case .lineFeed: self = .bareLineFeed
    default:
      guard byte.isControl else { return nil }
      self = .controlCharacter
    }
  }
}
