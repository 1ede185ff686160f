/// A set of ASCII characters as a bit mask of 128 bits: two constants in registers, no table to load.
///
/// A test holds every mask against the characters that its grammar lists.
struct ByteSet: Sendable {
  /// Bit *n* stands for the character *n*.
  let low: UInt64
  /// Bit *n* stands for the character 64 + *n*.
  let high: UInt64

  /// Whether `byte` is in the set; never so for 0x80 and above.
  @inline(__always)
  func contains(_ byte: UInt8) -> Bool {
    let half = byte < 64 ? low : (byte < 128 ? high : 0)
    return half &>> UInt64(byte & 63) & 1 != 0
  }

  /// `tchar`, RFC 9110 §5.6.2.
  static var token: Self { Self(low: 0x03ff_6cfa_0000_0000, high: 0x57ff_ffff_c7ff_fffe) }

  /// What a path may hold: `pchar` and `/` (RFC 3986 §3.3), and `[ ] ^ |`, which browsers send unencoded there
  /// (WHATWG URL, path percent-encode set). `\` is not allowed, because some programs read it as `/`.
  static var path: Self { Self(low: 0x2fff_fff2_0000_0000, high: 0x57ff_fffe_efff_ffff) }

  /// What a query may hold: `pchar`, `/` and `?` (RFC 3986 §3.4), and ``[ ] \ ^ ` { | }``, which browsers send
  /// unencoded there (WHATWG URL, query percent-encode set).
  static var query: Self { Self(low: 0xafff_fff2_0000_0000, high: 0x7fff_ffff_ffff_ffff) }

  /// `reg-name` (RFC 3986 §3.2.2) without the comma: a host with a comma is two Host fields that were joined.
  static var registeredName: Self { Self(low: 0x2bff_6ff2_0000_0000, high: 0x47ff_fffe_87ff_fffe) }
}
