import Dispatch
import Glibc
import TestSupport
import Testing

@testable import EventLoop

extension IOLoop {
  /// A loop that ends with the test.
  static func forTest(_ kind: PollerKind) throws -> TestLoop {
    TestLoop(try start(label: "test.loop", poller: kind))
  }
}

/// Stops its loop on deinitialization.
final class TestLoop: Sendable {
  let loop: IOLoop

  init(_ loop: IOLoop) { self.loop = loop }

  deinit { loop.stop() }

  /// Keeps the loop busy while `body` runs.
  func whileBusy<Result>(_ body: () throws -> Result) rethrows -> Result {
    let isBusy = DispatchSemaphore(value: 0)
    let end = DispatchSemaphore(value: 0)
    loop.post {
      isBusy.signal()
      end.wait()
    }
    #expect(isBusy.wait(timeout: .now() + 60) == .success)
    defer { end.signal() }
    return try body()
  }

  /// Returns the result of `body`, which runs on the loop.
  func get<Value>(_ body: @escaping @Sendable () -> Value) throws -> Value {
    let box = Box<Value>()
    loop.performAndWait { box.value = body() }
    guard let value = box.value else { throw TestFailure("The loop did not run what it was given.") }
    return value
  }

  private final class Box<Value>: @unchecked Sendable {
    // Sendable: written before the wait for the loop, and read after it.
    var value: Value?
  }
}

/// Both ends of a connection: a channel of a loop, and a descriptor for the test.
final class Pair: Sendable {
  let channel: Channel
  let other: Int32

  /// - Parameters:
  ///   - isConnection: Whether the channel counts as a connection, which needs a deadline.
  ///   - isFatal: Whether the loop stops if the connection has no deadline.
  init(on loop: TestLoop, isConnection: Bool = false, isFatal: Bool = false) throws {
    var ends: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    guard unsafe socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw TestFailure("There is no socket pair.") }
    let (own, other) = (ends[0], ends[1])
    channel = try loop.get {
      loop.loop.deadlineCount.isFatal = isFatal
      let descriptor = Descriptor(owning: own)
      return loop.loop.open(descriptor, isConnection: isConnection)
    }
    self.other = other
  }

  deinit { close(other) }

  /// Sends one byte to the channel.
  func poke() {
    var byte: UInt8 = 1
    _ = unsafe write(other, &byte, 1)
  }
}
