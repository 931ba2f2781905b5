package v1

// QuantityPattern matches the quantities that this API takes: all that Kubernetes takes, with an exponent of at most three
// digits, as the time to read one grows with its exponent. The definitions state it for each quantity, and each rule tests it
// before it calls quantity(), because a rule runs on a value whose pattern does not match, too.
const QuantityPattern = `^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$`
