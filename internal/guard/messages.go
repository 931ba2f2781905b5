package guard

import "net/http"

// reason is why a request or a connection was refused, a label of the metric.
type reason string

const (
	reasonConnections reason = "connections"
	reasonBudget      reason = "budget"
	reasonSize        reason = "size"
	reasonTime        reason = "time"
	reasonBroken      reason = "broken"
	reasonForm        reason = "form"
	reasonRate        reason = "rate"
)

// The answers to requests for metrics that have no token, or too many of them.
const (
	messageNoToken       = "metrics are for clients with a bearer token; send that of a ServiceAccount which may get /metrics"
	messageTooManyTokens = "no token of this address has been accepted so far, and it sends too many; try again in a second"
)

// refusal is the answer to a request that is not handled.
type refusal struct {
	status  int
	reason  reason
	message string
}

// The refusals. The answer on a connection that was taken back reaches no client.
var (
	refusedConnection = &refusal{http.StatusServiceUnavailable, reasonConnections, "other connections take the place of this one; try again"}

	refusedBudget = &refusal{http.StatusServiceUnavailable, reasonBudget, "the bodies of other requests take all the memory that there is for them; try again"}
	refusedSize   = &refusal{http.StatusRequestEntityTooLarge, reasonSize, "the body is too large"}
	refusedTime   = &refusal{http.StatusRequestTimeout, reasonTime, "the body did not arrive in time"}
	refusedBroken = &refusal{http.StatusBadRequest, reasonBroken, "the body could not be read"}
	refusedForm   = &refusal{http.StatusUnsupportedMediaType, reasonForm, "the body must be a JSON object: send it as the API server does, beginning with {"}
)
