import JSON

/// One line of the record of grants and refusals.
struct AuditLine: CustomStringConvertible {
  /// `granted`, `refused` or `limited`.
  let outcome: String
  /// Why; nil for a grant.
  let reason: String?
  /// `-` for nobody's.
  let client: String
  let description: String

  init(_ line: JSONValue) {
    outcome = line["audit.outcome"]?.string ?? ""
    reason = line["audit.reason"]?.string
    client = line["client.id"]?.string ?? ""
    description = "\(line)"
  }
}

extension RunningServer {
  /// The lines of the record so far, or all of them once the server has ended.
  var auditLines: [AuditLine] {
    logLines.compactMap { $0 }.filter { $0["message"]?.string == "audit" }.map(AuditLine.init)
  }
}
