// Prints the nanoseconds of CPU time of each measurement.
for measurement in try Codec.measure() + Tokens.measure() + APIKeys.measure() {
  let name = measurement.name + String(repeating: " ", count: max(0, 40 - measurement.name.count))
  print(name, Int(measurement.nanoseconds.rounded()), "ns")
}
try APIKeys.printTiming()
