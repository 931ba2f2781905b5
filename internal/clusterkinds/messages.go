package clusterkinds

// The texts of conditions for a kind that the cluster lacks, or that the operator may not list.
const (
	messageMissing   = "the cluster has no %s (%s): install %s, or %s. The operator checks again every minute"
	messageForbidden = "the operator is not allowed to list objects of the kind %s: %s. Grant this permission to the operator, or %s. The operator retries every minute"
	messageUnknown   = "Waiting for the API server to list the objects of the kind %s"
)
