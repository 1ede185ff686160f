import Bytes
import Dispatch
import EventLoop
import Glibc
import HTTP1
import HTTPClient
import HTTPMessages
import HTTPTypes
import Locks

/// The parts of a response that matter to a command.
struct UpstreamReply: Sendable {
  let status: Int
  let date: String?
  /// The first bytes of the content, at most as many as the command wants.
  let content: [UInt8]
  /// Whether `content` is the whole content.
  let isComplete: Bool
  /// This machine's time at the request and at the response, in seconds since 1970.
  let times: ClosedRange<Int>

  var isSuccess: Bool { (200..<300).contains(status) }
}

extension UpstreamClient {
  /// Sends a request and blocks this thread until the response has arrived, for commands without a loop of their own.
  func reply(
    to request: UpstreamRequest, limits: UpstreamTimeouts, contentLimit: Int
  ) -> Result<UpstreamReply, UpstreamError> {
    let outcome = Locked<Result<UpstreamReply, UpstreamError>>(
      .failure(UpstreamError(.cancelled, .unprocessed, "The request was cancelled.")))
    let isDone = DispatchSemaphore(value: 0)
    Task(executorPreference: loop) {
      do throws(UpstreamError) {
        let start = Glibc.time(nil)
        let response = try await self.send(request, limits: limits)
        let times = start...max(start, Glibc.time(nil))
        let (content, isComplete) = await response.content.beginning(contentLimit)
        let reply = UpstreamReply(
          status: response.status.code, date: response.fields[.date], content: content, isComplete: isComplete,
          times: times)
        outcome.withLock { $0 = .success(reply) }
      } catch {
        outcome.withLock { $0 = .failure(error) }
      }
      isDone.signal()
    }
    // The timeouts of the client bound this wait.
    isDone.wait()
    return outcome.withLock { $0 }
  }
}

extension ContentReader {
  /// Returns the first bytes of the content, at most `limit`, and whether they are all. Ends the reading.
  fileprivate func beginning(_ limit: Int) async -> ([UInt8], isComplete: Bool) {
    defer { cancel() }
    var content: [UInt8] = []
    do throws(ContentError) {
      while content.count <= limit, limit > 0 {
        guard let part = try await read() else { return (content, true) }
        content += part
      }
    } catch {}
    return (Array(content.prefix(limit)), false)
  }
}
