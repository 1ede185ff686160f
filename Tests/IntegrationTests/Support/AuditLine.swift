import JSON

/// One line of the audit log.
struct AuditLine: CustomStringConvertible {
  /// `granted`, `refused` or `limited`.
  let outcome: String
  /// The reason of a refusal; nil for a grant.
  let reason: String?
  /// The ID of the client; `-` without a client.
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
  /// The lines of the audit log so far, or all lines after the end of the server.
  var auditLines: [AuditLine] {
    logLines.compactMap { $0 }.filter { $0["message"]?.string == "audit" }.map(AuditLine.init)
  }
}
