"""Control calls of tests, benches and demos: prices, capacity, faults."""
