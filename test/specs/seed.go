package specs

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Number reads a number from an environment variable; otherwise applies where it is not set.
func Number(t testing.TB, env string, otherwise int) int {
	t.Helper()
	value := os.Getenv(env)
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// Random returns the source of a test's specs: always the same one, unless FUZZ_SEED chooses another. It logs the seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := Number(t, "FUZZ_SEED", 1)
	t.Logf("FUZZ_SEED=%d", seed)
	return rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // Random tests need no secrets.
}
