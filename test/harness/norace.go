//go:build !race

package harness

// slowdown is how many times fewer tests run at once. They mostly wait.
const slowdown = 1
