import DeveloperToken

extension SettingType where Value: CustomStringConvertible {
  /// An identifier of Apple's, which `make` gives if the text is one.
  static func identifier(
    _ remedy: String, make: @escaping @Sendable (String) throws(IdentifierError) -> Value
  ) -> SettingType {
    string(remedy) { (text) throws(InvalidValue) in
      guard let value = try? make(text) else {
        throw InvalidValue(problem: "\(quoted(text)) is not 10 characters of A-Z and 0-9", remedy: remedy)
      }
      return value
    }
  }
}

extension SettingType where Value == Origin {
  /// A web origin.
  static let origin: SettingType = {
    let remedy = "write an origin such as \"https://app.example.com\""
    return string(remedy) { (text) throws(InvalidValue) in
      do throws(OriginError) {
        return try Origin(text)
      } catch {
        guard isQuotable(text) else { throw InvalidValue(problem: "\(quoted(text)) is not an origin", remedy: remedy) }
        throw InvalidValue(problem: "\(error)", remedy: nil)
      }
    }
  }()
}

extension SettingType where Value == SecretBytes {
  /// A secret's text.
  static func secret(_ remedy: String) -> SettingType {
    scalar(write: { "\"\($0)\"" }) { (content) throws(InvalidValue) in
      switch content {
      case .secret(let secret): return secret
      case .text(let text), .json(.string(let text)): return SecretBytes(copying: Array(text.utf8).span)
      case .json(let other): throw .wrongType(other, remedy: remedy)
      }
    }
  }
}
