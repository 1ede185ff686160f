import Bytes

extension SettingType where Value == ServiceURL {
  static let collectorURL: SettingType = {
    let remedy = "write an http or https URL without credentials, such as \"http://localhost:4318\""
    return string(remedy) { (text) throws(InvalidValue) in
      guard let url = ServiceURL(ofCollector: text) else {
        // The text before an @ may be a password.
        let name = text.contains("@") || text.contains("?") ? "the URL" : quoted(text)
        throw InvalidValue(problem: "\(name) is not the URL of a collector", remedy: remedy)
      }
      return url
    }
  }()
}

extension SettingType where Value == Bool {
  /// A boolean, in a variable in any case of letters, as OpenTelemetry's specification of variables requires.
  static let openTelemetryBool = scalar(values: bool.values, write: bool.write) { (content) throws(InvalidValue) in
    guard case .text(let text) = content, let value = Bool(text.lowercased()) else { return try bool.parse(content) }
    return value
  }
}

extension SettingType where Value == [Settings.ResourceAttribute] {
  /// `key=value` pairs, in the format of `OTEL_RESOURCE_ATTRIBUTES`.
  static let keyValueList: SettingType = {
    let remedy = "write key=value, separated by commas, with other characters percent-encoded"
    return string(
      remedy, write: { list in "\"" + list.map { "\($0.key)=\($0.value)" }.joined(separator: ",") + "\"" }
    ) { (text) throws(InvalidValue) in
      guard let pairs = KeyValueList(text), pairs.elements.count <= 64 else {
        throw InvalidValue(problem: "is not a list of key=value, or has more than 64 of them", remedy: remedy)
      }
      return pairs.elements.map { Settings.ResourceAttribute(key: $0.key, value: $0.value) }
    }
  }()
}

extension SettingType where Value == [Settings.SpanExport.Header] {
  /// Header fields, in the format of `OTEL_EXPORTER_OTLP_HEADERS`.
  static let exportHeaders: SettingType = {
    let remedy = "write name=value, separated by commas, with other characters percent-encoded"
    return string(remedy, write: { _ in "\"…\"" }) { (text) throws(InvalidValue) in
      guard let pairs = KeyValueList(text), pairs.elements.count <= 64,
        pairs.elements.allSatisfy({ $0.key.isFieldName && $0.value.utf8.allSatisfy { (0x20...0x7E).contains($0) } })
      else { throw InvalidValue(problem: "is not a list of name=value", remedy: remedy) }
      let own = ["host", "connection", "content-length", "content-type", "content-encoding", "transfer-encoding", "te"]
      guard !pairs.elements.contains(where: { own.contains($0.key.lowercased()) }) else {
        throw InvalidValue(problem: "has a field that the server writes itself", remedy: "leave it out")
      }
      return pairs.elements.map { Settings.SpanExport.Header(name: $0.key, value: $0.value) }
    }
  }()
}

/// A list of `key=value`, separated by commas, with percent-encoding (the format of W3C Baggage, without properties).
private struct KeyValueList {
  let elements: [(key: String, value: String)]

  /// Parses a list of at most 8 KiB. Returns nil if it is malformed.
  init?(_ text: String) {
    guard text.utf8.count <= 8192 else { return nil }
    var elements: [(key: String, value: String)] = []
    for part in text.utf8.split(separator: UInt8(ascii: ",")) {
      let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      guard pair.count == 2, let key = Self.decoded(pair[0]), let value = Self.decoded(pair[1]), !key.isEmpty else {
        return nil
      }
      elements.append((key, value))
    }
    self.elements = elements
  }

  private static func decoded(_ part: Substring.UTF8View) -> String? {
    let trimmed = part.drop { $0 == 0x20 || $0 == 0x09 }.reversed().drop { $0 == 0x20 || $0 == 0x09 }.reversed()
    guard let bytes = PercentEncoding.decode(Array(trimmed).span),
      !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F })
    else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }
}

extension String {
  /// Whether the text is a token (RFC 9110 §5.6.2).
  fileprivate var isFieldName: Bool {
    !isEmpty
      && utf8.allSatisfy { byte in
        byte.isUnreservedInURI || "!#$%&'*+^`|".utf8.contains(byte)
      }
  }
}
