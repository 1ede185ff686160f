import Bytes
import EventLoop
import Glibc
import HTTPMessages
import JSON
import ServerSettings
import TLS
import TokenServer

/// The checks of `doctor` on this machine: modes of secret files, the end of own certificates, free ports.
struct LocalDiagnosis {
  /// The time before its end at which a certificate needs a new one: that of the alert MusicKitCertificateExpires.
  private static let renewalDays = 14
  private static let secondsOfDay = 86_400
  let draft: SettingsDraft
  /// Nil without TLS, or if its files are unusable.
  let tls: TLSContext?
  let diagnosis: Diagnosis

  func run() {
    checkModes()
    checkCertificates(now: Glibc.time(nil))
    checkListeners()
  }

  private func checkModes() {
    let exposed = draft.files.exposedSecrets
    guard !exposed.isEmpty else {
      return diagnosis.pass(.keyFiles, "No file with a key or a password is open to other users of this machine.")
    }
    let lines = exposed.map { setting, path, mode in
      "\(setting): other users of this machine can read or replace \(quotedPath(path)) "
        + "(mode 0\(String(mode, radix: 8)))."
    }
    diagnosis.fail(.keyFiles, lines, fix: "chmod 600 fixes it, or 640 with a group of the server alone.")
  }

  private func checkCertificates(now: Int) {
    guard draft.files.tls != nil else { return }
    guard let context = tls else { return diagnosis.skip(.certificates, dependsOn: .settings) }
    var ends = [("The certificate", context.certificateNotAfter)]
    ends += context.furtherCertificates.map { ("The certificate of \($0.name)", $0.certificate.notAfter) }
    if let end = context.clientAuthoritiesNotAfter { ends.append(("A CA of server.tls.clientCAFile", end)) }
    let late = ends.filter { $0.1 < now + Self.renewalDays * Self.secondsOfDay }
    guard late.isEmpty else {
      let lines = late.map { name, end in
        "\(name) \(end > now ? "expires in \((end - now) / Self.secondsOfDay) days, at" : "expired at") "
          + "\(CivilTime(secondsSinceEpoch: end))."
      }
      return diagnosis.fail(.certificates, lines, fix: "Renew it. The server takes the new file without a restart.")
    }
    let subject = ends.count == 1 ? "The certificate is" : "All \(ends.count) are"
    let first = CivilTime(secondsSinceEpoch: ends.map(\.1).min() ?? now)
    diagnosis.pass(.certificates, "\(subject) valid until \(first).")
  }

  private func checkListeners() {
    guard let server = draft.server else { return diagnosis.skip(.listeners, dependsOn: .settings) }
    let adminProbe = draft.admin.map { "http://\($0.host.reachableAuthority):\($0.port)/readyz" }
    // Where a probe reaches a server that listens here; the admin listener if a plain request does not.
    var probe = adminProbe
    if case .tcp(let host, let port) = server.address, server.tls == nil, !server.proxyProtocol {
      probe = "http://\(host.reachableAuthority):\(port)/readyz"
    }
    var places = [(Endpoint(server.address), server.address.settings, probe)]
    if let admin = draft.admin { places.append((Endpoint(admin), Settings.Admin.addressSettings, adminProbe)) }
    var (found, faults): ([String], [String]) = ([], [])
    for (endpoint, hint, probe) in places {
      do throws(ListenError) {
        try Listener.check(endpoint, reusesPort: server.reusePort)
        found.append("\(endpoint) is free.")
      } catch {
        if error.isTaken, let probe, Self.isOwn(probe) {
          found.append("A server of this program listens on \(endpoint).")
        } else {
          faults.append("\(error) \(hint)")
        }
      }
    }
    guard faults.isEmpty else { return diagnosis.fail(.listeners, faults) }
    diagnosis.pass(.listeners, found.joined(separator: " "))
  }

  private static let patience = UpstreamTimeouts(connect: .seconds(1), firstByte: .seconds(2), whole: .seconds(2))

  /// Returns whether this program responds at a URL of `/readyz`, by the form of its response.
  private static func isOwn(_ text: String) -> Bool {
    guard let url = try? HealthCheckURL(text),
      case .success(let reply)? = try? url.reply(limits: patience, contentLimit: 65_536),
      let verdict = JSONReader.read(reply.content, values: 512)?["status"]?.string
    else { return false }
    return ReadinessReport.verdicts.contains { verdict == $0 }
  }
}
