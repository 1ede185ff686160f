"""What `Benchmarks/run` is made of; the standard library is all that it needs."""
