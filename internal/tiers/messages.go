package tiers

// Messages of conditions about the tiers. Each message says what is wrong and which objects it is about.
const (
	messageTierWaits        = "Waiting for %[2]s to be available before creating %[1]s"
	messageTierKept         = "Waiting for %[2]s to be available before updating %[1]s, which keeps its last applied spec"
	messageTierPaused       = "A change of %s waits until the CloudManager is resumed: status.pending has it"
	messageRemovingPrevious = "Removing %[2]s, which %[1]s replaces"
	messageLendsService     = "%[1]s replaces %[2]s, which stays until the clients of its Service have had their time to follow"
	messageNameTaken        = "%s %s is of the tier %s: the spec of the tier %s, which has this name, is not applied. Choose another name, or rename in two steps"
	messageNameAwaitedDown  = "%s. %s. If that does not end, choose another name, or rename in two steps"
	messageNameAwaited      = "Waiting for %[1]s %[2]s, which the tier %[3]s replaces, to be removed before applying the spec of the tier %[4]s, which keeps its last applied spec"
)
