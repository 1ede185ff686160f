import Glibc
import TestSupport
import Testing

@Suite("The signing key of a running server")
struct LockedMemoryTests {
  /// Only root may read the memory of a process that is not dumpable.
  static let mayReadMemory = getuid() == 0

  @Test(
    "is only in locked memory, from a file or a variable, also after signatures",
    .enabled(if: mayReadMemory, "only root may look"), arguments: [true, false])
  func lockedOnly(comesByEnvironment: Bool) throws {
    let ground = try Ground()
    var settings = ground.settings
    if comesByEnvironment {
      settings["MUSICKIT_KEY_FILE"] = nil
      settings["MUSICKIT_KEY"] = ground.key.pem
      settings["MUSICKIT_KEY_ID"] = Ground.keyID
    }
    let server = try RunningServer([], environment: settings)
    // Each lifetime needs another token, so the server signs each time.
    for ttl in 600..<620 { #expect(try server.request("/token?ttl=\(ttl)").status == 200) }
    let memory = try ProcessMemory(server.process.id)
    let scalar = try Self.scalar(of: ground.key)
    let text = Array(try #require(ground.key.pem.split(separator: "\n").dropFirst(2).first).utf8.prefix(40))
    // Big-endian as in DER, little-endian as in OpenSSL's numbers, and as PEM text.
    let places = try [scalar, scalar.reversed(), text].map { try memory.places(of: $0) }
    #expect(places[1].contains { $0.isLocked }, "the search finds what is there")
    for place in places.joined() { #expect(place.isLocked, "\(place)") }
    #expect(server.stop() == 0)
  }

  /// The private scalar: the OCTET STRING of 32 bytes after the version 1 of an ECPrivateKey (RFC 5915 §3).
  private static func scalar(of key: KeyPair) throws -> [UInt8] {
    let body = key.pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
    let alphabet: [Character: Character] = ["+": "-", "/": "_"]
    let der = try Base64URL.decode(String(body.filter { $0 != "=" }.map { alphabet[$0] ?? $0 }))
    let mark: [UInt8] = [0x02, 0x01, 0x01, 0x04, 0x20]
    let start = try #require(der.indices.first { der[$0...].starts(with: mark) }) + mark.count
    return Array(der[start..<(start + 32)])
  }
}

/// The memory of another process, read through `/proc`.
private struct ProcessMemory {
  struct Region: CustomStringConvertible {
    let range: Range<Int>
    let description: String
    var isLocked = false
  }

  private let id: pid_t
  private var regions: [Region] = []

  init(_ id: pid_t) throws {
    self.id = id
    for line in try TextFile.read("/proc/\(id)/smaps").split(separator: "\n") {
      if line.hasPrefix("VmFlags:") {
        // proc(5): "lo" is "pages are locked in memory".
        if line.split(separator: " ").contains("lo"), !regions.isEmpty { regions[regions.count - 1].isLocked = true }
      } else if let range = Self.range(line) {
        regions.append(Region(range: range, description: String(line)))
      }
    }
  }

  /// The address range in the first line of a region, `7f00-7fff`, if the region is readable.
  private static func range(_ line: Substring) -> Range<Int>? {
    let fields = line.split(separator: " ")
    guard fields.count >= 5, fields[1].hasPrefix("r") else { return nil }
    let ends = fields[0].split(separator: "-").compactMap { Int($0, radix: 16) }
    return ends.count == 2 ? ends[0]..<ends[1] : nil
  }

  /// The regions that contain these bytes.
  func places(of bytes: [UInt8]) throws -> [Region] {
    let descriptor = unsafe open("/proc/\(id)/mem", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw TestFailure("The memory of \(id) cannot be read.") }
    defer { close(descriptor) }
    return regions.filter { region in
      var content = [UInt8](repeating: 0, count: region.range.count)
      // Some pages of the kernel are unreadable; they contain no data of the process.
      let count = unsafe pread(descriptor, &content, content.count, region.range.lowerBound)
      return Self.contains(bytes, content.span.extracting(first: max(0, count)))
    }
  }

  /// Searches for one byte that is not 0, because most of the memory is 0.
  private static func contains(_ bytes: [UInt8], _ content: Span<UInt8>) -> Bool {
    guard let offset = bytes.firstIndex(where: { $0 != 0 }) else { return false }
    return unsafe content.withUnsafeBytes { content in
      var next = offset
      while let start = content.baseAddress, next < content.count,
        let found = unsafe memchr(start + next, Int32(bytes[offset]), content.count - next)
      {
        let place = unsafe found - UnsafeMutableRawPointer(mutating: start)
        if place - offset + bytes.count <= content.count,
          unsafe memcmp(start + place - offset, bytes, bytes.count) == 0
        {
          return true
        }
        next = place + 1
      }
      return false
    }
  }
}
