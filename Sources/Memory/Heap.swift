import CPlatform

/// The C allocator, from which all memory of Swift, OpenSSL and nghttp2 comes.
public enum Heap {
  /// Has large blocks returned to the system when they are freed. Without it the allocator raises its threshold with the
  /// size of what was freed, and keeps blocks of up to 32 MiB for itself. Call it once, at the start.
  public static func returnLargeBlocks() { cplatform_return_large_blocks() }

  /// Returns free pages to the system, those between blocks in use too. Stops other threads' allocations for a moment:
  /// after a burst, and not on a loop.
  public static func trim() { cplatform_trim_heap() }
}
