package reconciler

// What the conditions of every kind say.
const (
	pausedMessage  = "spec.paused is true: the operator writes no child object"
	pendingMessage = "spec.paused is true and holds back a change of the child objects; set it to false to apply the change"
)

// joinSentences joins two parts of a message, either of which may be empty.
func joinSentences(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ". " + b
}
