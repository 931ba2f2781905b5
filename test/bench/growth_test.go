package bench

import "testing"

// BenchmarkGrowth makes few Apps and many, with Services that have no address of the cluster's, by turns for the manager and
// as floor B: what the API server does to give a Service an address grows with how many Services there are, and hides how
// the rest does.
func BenchmarkGrowth(b *testing.B) {
	for _, n := range []int{growth.few, growth.many} {
		for round := range roundsOf(n) {
			floor := headless(b)
			least := floor.burst(b, n, floor.apply)
			floor.end(b)
			w := headless(b)
			o := w.start(b, "")
			o.settle(b)
			made := w.burst(b, n, w.submit)
			o.stop(b)
			found.add(burstHeadless, n, floorB, "Apps/s", least)
			found.add(burstHeadless, n, manager, "Apps/s", made)
			found.divide(burstHeadless, n, floorB)
			w.end(b)
			progress("%d Apps with headless Services, round %d: floor B makes %.0f, the manager %.0f a second", n, round+1, least, made)
		}
	}
}

// burstHeadless is what "burst" is called for Apps whose Services have no address.
const burstHeadless = "burst, headless Services"

// burstName is what the rate at which Apps are created at once is called.
func (w *world) burstName() string {
	if w.headless {
		return burstHeadless
	}
	return "burst"
}

// headless is a bare world whose Apps want Services without an address.
func headless(b *testing.B) *world {
	b.Helper()
	w := bare(b)
	w.headless = true
	return w
}

const (
	// largest is how many Apps a machine of two cores and 24 GiB was tried with.
	largest = 50000
	// shards is over how many namespaces they are spread.
	shards = 5
	// largestMemory is the GOMEMLIMIT of their manager.
	largestMemory = "4GiB"
)

// BenchmarkLargest makes as many Apps as there is room for, and starts a manager over all of them, and one over those of one
// namespace, as where several managers share the work.
func BenchmarkLargest(b *testing.B) {
	w := headless(b)
	defer w.end(b)
	w.shards, w.memory = shards, largestMemory
	for i := range shards {
		w.addNamespace(b, w.shard(i))
	}
	o := w.start(b, "")
	o.settle(b)
	w.created(b, o, largest, 0)
	w.weighed(b, largest)
	w.idled(b, o, largest)
	found.add("memory, most", largest, manager, "MiB", o.peak(b))
	o.stop(b)
	w.restarted(b, largest, 0)

	o = w.start(b, w.shard(0))
	took := o.through(b, largest/shards)
	found.add("restart, in one of five namespaces", largest, manager, "s", took)
	found.add("restart, in one of five namespaces, memory", largest, manager, "MiB", o.figures(b).resident)
	progress("%d Apps: a new manager for a fifth of them is idle after %.2f s, with %.0f MiB", largest, took, o.figures(b).resident)
	o.stop(b)
}
