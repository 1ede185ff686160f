import DeveloperToken
import Glibc
import TokenServer

/// What the process does to itself at the start, while there is one thread.
enum ProcessSetup {
  /// What could not be had of the protection for keys.
  static var findings: [Finding] { SecureMemory.protect() }

  /// Opens what is missing of the three standard streams, holds signals back until a command takes them, protects the
  /// memory for keys, makes a write to a closed pipe, or beyond a file's allowed size, an error instead of
  /// the end, and raises the number of descriptors to what the system grants.
  static func prepare() {
    openStandardStreams()
    ProcessSignals.hold()
    _ = SecureMemory.protect()
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    let descriptors = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard unsafe getrlimit(descriptors, &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    unsafe setrlimit(descriptors, &limit)
  }

  /// Opens /dev/null for each of the descriptors 0 to 2 that is closed. The system gives the lowest free number to
  /// whatever is opened next: a socket or a pipe of the server's own would be written to as its log.
  private static func openStandardStreams() {
    for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
      if unsafe open("/dev/null", O_RDWR) < 0 {
        // No file system to speak of: a socket that is connected to nothing fails every read and write as well.
        _ = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      }
    }
  }
}
