import DeveloperToken
import Glibc

/// What the process does to itself at the start, while there is one thread.
enum ProcessSetup {
  /// What could not be had of the protection for keys.
  static var findings: [Finding] { SecureMemory.protect() }

  /// Protects the memory for keys, makes a write to a closed pipe, or beyond a file's allowed size, an error instead of
  /// the end, and raises the number of descriptors to what the system grants.
  static func prepare() {
    _ = SecureMemory.protect()
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    let descriptors = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard unsafe getrlimit(descriptors, &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    unsafe setrlimit(descriptors, &limit)
  }
}
