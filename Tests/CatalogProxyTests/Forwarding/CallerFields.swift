import CatalogProxy
import HTTP1

/// The request fields of a caller, and the names that were looked up.
final class CallerFields: RequestFields {
  private let lines: [(name: String, value: String)]
  private(set) var asked: Set<String> = []

  init(_ lines: KeyValuePairs<String, String>) {
    self.lines = lines.map { (name: $0.key.lowercased(), value: $0.value) }
  }

  func field(_ name: StaticString) -> FieldOccurrence<ArraySlice<UInt8>> {
    let name = name.description
    asked.insert(name)
    let values = lines.filter { $0.name == name }.map(\.value)
    return values.count > 1 ? .repeated : values.first.map { .single(Array($0.utf8)[...]) } ?? .absent
  }
}
