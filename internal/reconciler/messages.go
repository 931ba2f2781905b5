package reconciler

// What the conditions of every kind say.
const (
	messagePaused  = "spec.paused is true: the operator does not modify child objects"
	messagePending = "spec.paused is true and a change of the child objects is pending; set it to false to apply the change"
)

// joinSentences joins two parts of a message; either may be empty.
func joinSentences(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ". " + b
}
