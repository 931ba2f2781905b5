package tiers

// Messages of conditions about the tiers. Each message says what is wrong and which objects it is about.
const (
	messageTierWaits        = "Waiting for %[2]s to be available before creating %[1]s"
	messageRemovingPrevious = "Removing %[2]s, which %[1]s replaces"
)
