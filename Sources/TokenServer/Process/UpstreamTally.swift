import CatalogProxy
import HTTPMessages
import Locks
import Telemetry

/// What attempts at Apple Music came to: how long responses took to begin, and why there was none.
final class UpstreamTally: @unchecked Sendable {
  // Sendable: `durations` and `errors` are touched only under `lock`.
  private let lock = Mutex()
  private var durations = DurationHistogram()
  private var errors = [Int](repeating: 0, count: Cause.allCases.count)

  /// Why an attempt failed, as the metric's label has it.
  enum Cause: Int, CaseIterable {
    case dns, connect, tls, timeout, broken, protocolViolation, status, other

    var label: StaticString {
      switch self {
      case .dns: "dns"
      case .connect: "connect"
      case .tls: "tls"
      case .timeout: "timeout"
      case .broken: "broken"
      case .protocolViolation: "protocol"
      case .status: "status"
      case .other: "other"
      }
    }
  }

  static let responseTimes = Metric(
    .histogram, "musickit_upstream_response_seconds",
    "Time from an attempt's start to the head of Apple Music's response, with the wait for a connection.")
  static let failures = Metric(
    .counter, "musickit_upstream_errors_total", "Attempts at Apple Music that failed, by cause.", labels: ["cause"])

  /// Counts what it is about, if it is.
  func count(_ notice: CatalogNotice) {
    switch notice {
    case .responded(let duration): lock.withLock { durations.add(duration) }
    case .exchangeFailed(let error): count(Cause(error.cause))
    case .upstreamStatus: count(.status)
    default: break
    }
  }

  private func count(_ cause: Cause) {
    lock.withLock { errors[cause.rawValue] &+= 1 }
  }

  func write(to text: inout MetricsText) {
    let (times, counts) = lock.withLock { (durations, errors) }
    text.begin(Self.responseTimes)
    text.histogram(of: Self.responseTimes, times)
    text.begin(Self.failures)
    for cause in Cause.allCases { text.sample(of: Self.failures, Double(counts[cause.rawValue]), [.word(cause.label)]) }
  }
}

extension UpstreamTally.Cause {
  init(_ cause: UpstreamError.Cause) {
    self =
      switch cause {
      case .dnsError, .dnsTimeout: .dns
      case .destinationUnavailable, .destinationIPUnroutable, .connectionRefused, .connectionTimeout: .connect
      case .tlsProtocolError, .tlsCertificateError, .tlsAlertReceived: .tls
      case .connectionReadTimeout, .connectionWriteTimeout, .responseTimeout: .timeout
      case .connectionTerminated, .responseIncomplete: .broken
      case .protocolError, .responseHeaderSectionSize: .protocolViolation
      case .connectionLimitReached, .proxyInternalError, .cancelled: .other
      }
  }
}
