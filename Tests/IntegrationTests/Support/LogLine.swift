import JSON

extension RunningServer {
  /// The lines of the log, complete after the end of the server. A line that is not a JSON object is nil.
  var logLines: [JSONValue?] {
    log.split(separator: "\n").map { line in
      JSONReader.read(Array(line.utf8)).flatMap { $0.isObject ? $0 : nil }
    }
  }

  /// The lines about requests.
  var accessLines: [JSONValue] { logLines.compactMap { $0 }.filter { $0["message"]?.string == "access" } }
}
