import JSON
import TestSupport

/// A visit of the page in a real browser.
enum PageVisit {
  /// Runs a script on the page of a listener after the page has begun.
  ///
  /// - Parameters:
  ///   - url: The URL of a listener, with the fragment of a panel.
  ///   - script: The body of an asynchronous function. It can use `text(selector)`, `choose(selector, value)`, and the
  ///     functions of `browser.py`.
  static func run(_ url: String, _ script: String) throws -> JSONValue {
    try Browser.shared().run(at: url, prelude + script)
  }

  /// Runs a script that returns a text.
  static func text(_ url: String, _ script: String) throws -> String? {
    try run(url, script).string
  }

  private static let prelude = """
    const text = (selector) => document.querySelector(selector)?.innerText ?? "";
    const shows = (selector, words) => until(() => text(selector).includes(words),
      () => selector + " shows " + words + ": " + text(selector));
    const choose = async (selector, value) => {
      const element = find(selector);
      element.focus();
      element.value = value;
      element.dispatchEvent(new Event("input", { bubbles: true }));
      element.dispatchEvent(new Event("change", { bubbles: true }));
    };
    const violations = [];
    addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective + " " + event.blockedURI));
    await until(() => document.body.dataset.ready, "the page begins");

    """
}
