import HTTP2
import HTTPTypes

extension HTTP2RequestHead {
  static func get(_ path: String = "/", fields: HTTPFields = [:]) -> Self {
    Self(method: "GET", scheme: "https", authority: "api.example", path: path, fields: fields)
  }

  static func post(_ path: String = "/", fields: HTTPFields = [:]) -> Self {
    Self(method: "POST", scheme: "https", authority: "api.example", path: path, fields: fields)
  }
}

/// `count` bytes that differ from their neighbours.
func content(_ count: Int) -> [UInt8] {
  (0..<count).map { UInt8(truncatingIfNeeded: $0 ^ ($0 >> 8)) }
}
