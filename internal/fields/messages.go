package fields

// messageCannotApply is the error for a wanted object that does not fit the schema of its type: kind, name and the reason.
const messageCannotApply = "cannot apply %s %s: %s"
