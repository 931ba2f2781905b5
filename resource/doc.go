// Package resource maps custom resources to Kubernetes objects.
//
// Every kind is mapped to a Workload first; the builders of the objects know only the Workload. All functions are pure:
// observations of the cluster are arguments (BuildOptions), and the same input gives the same bytes. Builders state only fields
// that survive a round trip through the API server, so that an applied object equals the desired one.
package resource
