//go:build race

package harness

// slowdown is how many times fewer tests run at once, as the race detector has them compute more than they wait.
const slowdown = 2
