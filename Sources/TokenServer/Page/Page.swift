import DeveloperToken
import HTTPServer
import ServerSettings
import Telemetry
import WebFiles

/// The page for browsers: its files, and the few routes that only it uses.
///
/// The page has no right of its own. On the public listener it sends what any caller can send, with the credential that
/// the person enters. Explanations, audit records and metrics are on the admin listener only. The demo's public listener
/// has them too, so that its page is complete: Apple does not know the demo's key, and its callers only try it.
struct Page: Sendable {
  let settings: Settings
  let isDemo: Bool
  let gate: AccessGate
  let keys: [SigningKey]
  let listeners: BoundListeners

  var publicRoutes: [Route] {
    files(PageSecurity(publicPageOf: settings, isDemo: isDemo)) + describedRoutes.dropFirst()
  }

  /// The routes of the public listener that are of use without the page.
  var describedRoutes: [Route] {
    let security = PageSecurity(publicPageOf: settings, isDemo: isDemo)
    let inspection = InspectionEndpoint(keys: keys, gate: gate, asksGate: true, rule: nil)
    return [WebFileEndpoint(.page, fields: security.fields).route, facts(nil), inspection.route] + Self.moduleRoutes
  }

  /// The routes of the module for web apps, which needs no page.
  static var moduleRoutes: [Route] { WebFile.module.map { WebModuleEndpoint($0).route } }

  var adminRoutes: [Route] {
    let rule = OwnPageRule(checksHosts: settings.adminHosts != nil)
    let inspection = InspectionEndpoint(keys: keys, gate: gate, asksGate: false, rule: rule)
    return files(PageSecurity()) + [facts(rule), inspection.route, audit(rule)]
  }

  private func files(_ security: PageSecurity) -> [Route] {
    let parts = (WebFile.partsOfPage + WebFile.recipes).map { WebFileEndpoint($0, fields: PageSecurity.ofParts).route }
    return [WebFileEndpoint(.page, fields: security.fields).route] + parts
  }

  /// - Parameter rule: The rule of the admin listener, whose facts name the clients; nil for the public listener.
  private func facts(_ rule: OwnPageRule?) -> Route {
    let facts = PageFacts(settings, isDemo: isDemo, isAdmin: rule != nil)
    return Route(get: "/page/facts") { request in
      rule?.refusal(of: request)?.response(id: request.id) ?? .json(facts.json(listeners).utf8)
    }
  }

  /// The last audit records, for the page of the listener alone.
  func audit(_ rule: OwnPageRule) -> Route {
    Route(get: "/page/audit") { request in
      if let refusal = rule.refusal(of: request) { return refusal.response(id: request.id) }
      let records = gate.service.recent?.json ?? Array("[]".utf8)
      return .json("{\"records\":".utf8 + records + "}".utf8)
    }
  }
}
