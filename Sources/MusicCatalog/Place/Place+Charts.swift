import Bytes
import JSON

/// The endpoint `/v1/catalog/{storefront}/charts`
extension Place {
  private static let chart = "most-played"
  /// Apple's bound of the offset: "offset must be less than 200".
  private static let offsetBound = 200

  func charts() throws(AppleError) -> JSONValue {
    guard let names = query.list("types"), !names.isEmpty else { throw .init(.missingParameter, parameter: "types") }
    let paging = try Paging(query, PageSizes(20, most: 50), offsetBelow: Self.offsetBound)
    let genre = query["genre"].map { ResourceKey("genres", ByteString($0)) }
    if let genre, find(genre) == nil {
      throw .invalid("genre", "No genre found matching '\(genre.id.text.prefix(64))'")
    }
    if let chart = query["chart"], chart != Self.chart {
      throw .invalid("chart", "No chart found matching '\(chart.prefix(64))'")
    }
    var groups: [(String, JSONValue?)] = []
    for name in names where !groups.contains(where: { name == $0.0 }) {
      guard let type = types[name], let title = type.chart else {
        throw .invalid("types", "No type found matching '\(name.text.prefix(64))'")
      }
      let ranked = permitted(all(type)).filter { resource in
        resource.filters == nil
          && (genre.map { genre in related(resource, "genres").contains { $0.key == genre } } ?? true)
      }
      let parameters = [("genre", genre?.id.text), ("types", name.text)]
      groups.append((name.text, try chart(ranked, paging, (Self.chart, title), parameters)))
    }
    let order = groups.map(\.0)
    for row in types.charts {
      guard let type = types["playlists"], let name = row["with"]?.string, query.values("with").contains(name)
      else { continue }
      let ranked = all(type).filter { $0.has(name, of: "with") }
      let heading = (row["chart"]?.string?.text ?? "", row["name"]?.string?.text ?? "")
      let parameters = [("types", type.name.text), ("with", name.text)]
      groups.append((name.text, try chart(ranked, paging, heading, parameters)))
    }
    return ["results": .object(of: groups), "meta": ["results": ["order": .strings(order)]]]
  }

  /// Returns the group of a chart, whose order has the name of the last parameter's value.
  private func chart(
    _ ranked: [Resource], _ paging: Paging, _ heading: (chart: String, name: String),
    _ parameters: [(name: String, value: String?)]
  ) throws(AppleError) -> JSONValue {
    let order = "\(heading.chart):\(parameters.last?.value ?? "")"
    let group = try group(
      Array(ranked.prefix(Self.offsetBound)), "/v1/catalog/\(storefront.key.id)/charts", paging,
      parameters: [("chart", Self.chart)] + parameters,
      head: [("chart", .text(heading.chart)), ("name", .text(heading.name)), ("orderId", .text(order))])
    return [group]
  }
}
