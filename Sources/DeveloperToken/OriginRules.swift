import Bytes
import JSON

/// Apple's rules for the `origin` claim: an array of concrete origins, and the browser's among them.
struct OriginRules {
  let claim: JSONValue?
  let origin: Origin?

  func check(into inspection: inout Inspection) {
    switch claim {
    case nil: inspection.add("claims.origin", .pass, "There is no origin claim: it works from everywhere.")
    case .array(let elements): check(elements, into: &inspection)
    case .string:
      inspection.add("claims.origin", .fail, "The origin claim is a string; it must be an array of strings.")
    default: inspection.add("claims.origin", .fail, "The origin claim is not an array of strings.")
    }
  }

  private func check(_ elements: [JSONValue], into inspection: inout Inspection) {
    let texts = elements.compactMap { element in
      if case .string(let text) = element { text } else { nil }
    }
    inspection.origins = texts
    let problems = texts.compactMap(problem)
    if elements.isEmpty {
      inspection.add("claims.origin", .fail, "The origin claim is empty, which allows nothing; leave it out instead.")
    } else if texts.count < elements.count {
      inspection.add("claims.origin", .fail, "The origin claim holds something else than strings.")
    } else if !problems.isEmpty {
      inspection.add("claims.origin", .fail, problems.prefix(8).joined(separator: " "))
    } else {
      inspection.add("claims.origin", .pass, "The origin claim is an array of concrete origins.")
    }
    checkMatch(texts, into: &inspection)
  }

  /// What keeps a text from ever being equal to what a browser sends.
  private func problem(_ text: ByteString) -> String? {
    do {
      let origin = try Origin(text.text)
      return text == origin.description
        ? nil : "The origin \(Printable.quote(text)) is never equal to a browser's, which is “\(origin)”."
    } catch {
      return error.description
    }
  }

  private func checkMatch(_ texts: [ByteString], into inspection: inout Inspection) {
    guard let origin else {
      return inspection.add(
        "claims.origin.match", .unknown, "It works only in requests whose Origin is one of these; none was given.")
    }
    inspection.add(
      "claims.origin.match", texts.contains { $0 == origin.description }, pass: "\(origin) is one of its origins.",
      fail: "\(origin) is not one of its origins, so Apple would refuse it from there.")
  }
}
