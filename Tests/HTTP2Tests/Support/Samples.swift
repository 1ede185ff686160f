import Bytes
import HTTP1
import HTTP2
import HTTPTypes

extension HTTP2RequestHead {
  static func get(_ path: ByteString = "/", fields: FieldLines = [:]) -> Self {
    Self(method: "GET", scheme: "https", authority: "api.example", path: path, fields: fields)
  }

  static func post(_ path: ByteString = "/", fields: FieldLines = [:]) -> Self {
    Self(method: "POST", scheme: "https", authority: "api.example", path: path, fields: fields)
  }
}

extension HTTP2RequestHead {
  /// A received head. Its authority is that of Host, which is not a field then.
  init(_ request: HTTP2ReceivedRequest) {
    let bytes = Array(request.bytes)
    func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
    self.init(
      method: text(request.control.method), scheme: text(request.control.scheme), authority: "",
      path: ByteString(text(request.control.path)))
    for line in request.fields {
      guard let name = HTTPField.Name(text(line.name)) else { continue }
      if name.canonicalName == "host" {
        authority = text(line.value)
      } else {
        fields.append(HTTPField(name: name, value: bytes[line.value]))
      }
    }
  }
}

extension HTTP2Session {
  /// Responds with a head of which each field is one line.
  func submitResponse(_ head: HTTP2ResponseHead, on id: HTTP2StreamID, hasContent: Bool = false) throws(HTTP2Error) {
    try submitResponse(status: head.status, on: id, hasContent: hasContent) { output in
      output += Array("HTTP/1.1 \(head.status)\r\n".utf8)
      head.fields.appendSection(to: &output)
    }
  }
}

/// `count` bytes that differ from their neighbours.
func content(_ count: Int) -> [UInt8] {
  (0..<count).map { UInt8(truncatingIfNeeded: $0 ^ ($0 >> 8)) }
}
