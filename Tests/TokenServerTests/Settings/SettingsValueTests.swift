import EventLoop
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("The parser of setting values")
struct SettingsValueTests {
  @Test(
    "reads an address range that contains exactly its addresses",
    arguments: [
      ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false), ("10.0.0.1", "10.0.0.1", true),
      ("10.0.0.1", "10.0.0.2", false), ("0.0.0.0/0", "203.0.113.7", true), ("0.0.0.0/0", "2001:db8::1", false),
      ("::/0", "203.0.113.7", true), ("2001:db8::/32", "2001:db8:1::1", true), ("2001:db8::/32", "2001:db9::1", false),
      ("10.0.0.0/8", "::ffff:10.1.2.3", true), ("::1", "::1", true),
    ])
  func ranges(_ range: String, _ address: String, _ isWithin: Bool) throws {
    let address = try #require(IPAddress(address))
    #expect(try #require(AddressRange(range)).contains(address) == isWithin)
  }

  @Test(
    "rejects a malformed address range",
    arguments: [
      "", "/", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8", "10.0.0.1/8",
      "10.0/8",
      "example.com", "::1%lo", "010.0.0.1", "10.0.0.1\0", "2001:db8::1/32",
    ])
  func noRanges(_ text: String) {
    #expect(AddressRange(text) == nil)
  }

  @Test(
    "rounds a CPU quota up to whole cores",
    arguments: [
      ("max 100000\n", nil), ("100000 100000\n", 1), ("150000 100000", 2), ("50000 100000", 1), ("400000 100000", 4),
      ("", nil), ("x y", nil), ("100000 0", nil), ("-1 100000", nil), ("9223372036854775807 1", Int.max),
    ])
  func quotas(_ text: String, _ cores: Int?) {
    #expect(HostFacts.cores(inCPUMax: text) == cores)
  }

  @Test("finds the CPU quota files of all parent cgroups")
  func cgroups() {
    let mounts = "16 31 0:34 / /sys/fs/cgroup rw,relatime shared:7 - cgroup2 cgroup2 rw"
    let groups = ControlGroups(membership: "1:cpu:/old\n0::/system.slice/token.service\n", mountInfo: mounts)
    #expect(
      groups.files("cpu.max") == [
        "/sys/fs/cgroup/system.slice/token.service/cpu.max", "/sys/fs/cgroup/system.slice/cpu.max",
        "/sys/fs/cgroup/cpu.max",
      ])
    #expect(ControlGroups(membership: "", mountInfo: mounts).files("cpu.max") == [])
  }

  @Test(
    "reads a memory limit",
    arguments: [
      ("268435456\n", 268_435_456), ("max\n", nil), ("9223372036854771712\n", nil), ("", nil), ("0", nil), ("x", nil),
    ])
  func memoryLimit(_ text: String, _ bytes: Int?) {
    #expect(HostFacts.bytes(inMemoryMax: text) == bytes)
  }

  private static let mounts = """
    14 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
    15 31 0:33 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
    16 31 0:34 / /sys/fs/cgroup/unified rw,relatime shared:7 - cgroup2 cgroup2 rw
    """

  @Test(
    "finds the memory limit files of all parent cgroups",
    arguments: [
      (
        "5:cpu:/a\n4:memory:/a/b\n", mounts,
        ["/a/b", "/a", ""].map { "/sys/fs/cgroup/memory\($0)/memory.limit_in_bytes" }
      ),
      ("0::/a\n", mounts, ["/a", ""].map { "/sys/fs/cgroup/unified\($0)/memory.max" }),
      // A container sees its own cgroup as the root of the mount.
      (
        "4:memory:/docker/1\n", "14 31 0:32 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]
      ),
      ("4:memory:/a\n", "", []), ("", mounts, []), ("4:cpu:/a\nnonsense", mounts, []),
    ])
  func memoryFiles(_ membership: String, _ mounts: String, _ files: [String]) {
    let groups = ControlGroups(membership: membership, mountInfo: mounts)
    #expect(groups.files("memory.max", v1: ("memory", "memory.limit_in_bytes")) == files)
  }

  @Test(
    "counts the cores of the CPU affinity mask",
    arguments: [
      ("Name:\tx\nCpus_allowed:\tff,0000000f\nCpus_allowed_list:\t0-3\n", 12), ("Cpus_allowed:\t3\n", 2),
      ("Cpus_allowed:\t0\n", nil), ("", nil),
    ])
  func affinity(_ text: String, _ cores: Int?) {
    #expect(HostFacts.cores(inStatus: text) == cores)
  }

  @Test(
    "counts a transposition of two letters as one edit",
    arguments: [
      ("ttl", "tll", 1), ("port", "prot", 1), ("", "abc", 3), ("abc", "", 3), ("idle", "idle", 0),
      ("kitten", "sitting", 3),
    ])
  func distances(_ a: String, _ b: String, _ distance: Int) {
    #expect(editDistance(a, b) == distance)
  }

  @Test(
    "maps a listen host to an address of this machine",
    arguments: [
      ("*", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("localhost", "localhost"),
      ("2001:db8::1", "[2001:db8::1]"), ("192.0.2.1", "192.0.2.1"),
    ])
  func authorities(_ host: String, _ authority: String) {
    #expect(ListenHost(host)?.reachableAuthority == authority)
  }
}
