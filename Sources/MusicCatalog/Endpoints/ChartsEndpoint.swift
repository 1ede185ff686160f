import Bytes
import JSON

/// The endpoint `/v1/catalog/{storefront}/charts`
struct ChartsEndpoint {
  private static let chart = "most-played"
  /// Apple's bound of the offset: "offset must be less than 200".
  private static let offsetBound = 200

  /// The place, where resources are bare.
  let place: Place
  private var query: Query { place.query }

  func respond() throws(AppleError) -> JSONValue {
    guard let names = query.list("types"), !names.isEmpty else { throw .init(.missingParameter, parameter: "types") }
    let paging = try Paging(query, PageSizes(20, most: 50), offsetBelow: Self.offsetBound)
    let genre = query["genre"].map { ResourceKey("genres", ByteString($0)) }
    if let genre, place.find(genre) == nil {
      throw .invalid("genre", "No genre found matching '\(genre.id.text.prefix(64))'")
    }
    if let chart = query["chart"], chart != Self.chart {
      throw .invalid("chart", "No chart found matching '\(chart.prefix(64))'")
    }
    var groups: [(String, JSONValue?)] = []
    for name in names where !groups.contains(where: { name == $0.0 }) {
      guard let type = place.types[name], let title = type.chart else {
        throw .invalid("types", "No type found matching '\(name.text.prefix(64))'")
      }
      let ranked = place.permitted(place.all(type)).filter { resource in
        resource.filters == nil
          && (genre.map { genre in place.related(resource, "genres").contains { $0.key == genre } } ?? true)
      }
      let group = try group(ranked, paging, Self.chart, title, [("genre", genre?.id.text), ("types", name.text)])
      groups.append((name.text, [group]))
    }
    let order = groups.map(\.0)
    for row in place.types.charts {
      guard let type = place.types["playlists"], let name = row["with"]?.string, query.values("with").contains(name)
      else { continue }
      let ranked = place.all(type).filter { $0.has(name, of: "with") }
      let (chart, title) = (row["chart"]?.string?.text ?? "", row["name"]?.string?.text ?? "")
      let group = try group(ranked, paging, chart, title, [("types", type.name.text), ("with", name.text)])
      groups.append((name.text, [group]))
    }
    return ["results": .object(of: groups), "meta": ["results": ["order": .strings(order)]]]
  }

  /// Returns a group, whose order has the name of the last parameter's value.
  private func group(
    _ ranked: [Resource], _ paging: Paging, _ chart: String, _ title: String,
    _ parameters: [(name: String, value: String?)]
  ) throws(AppleError) -> JSONValue {
    try place.group(
      Array(ranked.prefix(Self.offsetBound)), "/v1/catalog/\(place.storefront.id)/charts", paging,
      parameters: [("chart", Self.chart)] + parameters,
      head: [
        ("chart", .text(chart)), ("name", .text(title)), ("orderId", .text("\(chart):\(parameters.last?.value ?? "")")),
      ])
  }
}
