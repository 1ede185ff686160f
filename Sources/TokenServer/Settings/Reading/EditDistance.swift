/// How many letters must be changed, added, dropped or swapped with their neighbour to make `a` of `b`.
///
/// The optimal string alignment distance, in which a transposition, the commonest slip, counts once.
func editDistance(_ a: String, _ b: String) -> Int {
  let a = Array(a.utf8), b = Array(b.utf8)
  var beforeLast: [Int] = []
  var last = Array(0...b.count)
  for i in a.indices {
    var row = [i + 1]
    for j in b.indices {
      var best = min(last[j + 1] + 1, row[j] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
      if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { best = min(best, beforeLast[j - 1] + 1) }
      row.append(best)
    }
    beforeLast = last
    last = row
  }
  return last[b.count]
}

/// Which of `candidates` is nearest to `name`, letter case aside; the first of equals.
///
/// Names of any length come from a file, so only their first 64 bytes count.
func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
  let name = String(decoding: name.lowercased().utf8.prefix(64), as: UTF8.self)
  return candidates.min { editDistance(name, $0.lowercased()) < editDistance(name, $1.lowercased()) }
}
