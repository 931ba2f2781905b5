package secrecy

// Words that replace values in the answers of the API server.
const (
	messageSecretValue = "the reason is not shown because it contains a value of the Secret"
	messageValueHidden = "(value not shown)"
	messageManyValues  = "the reason is not shown because the object has more values that may be private than are looked for"
)
