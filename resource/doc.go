// Package resource says what a custom resource means in Kubernetes objects.
//
// Every kind is first mapped to a Workload, the one middle shape; the builders (Deployment, Service) know only that.
// All functions are pure: what they need to know of the cluster is an argument (BuildOptions), and the same input gives
// the same bytes. Builders state only what survives a round trip through the API server, so that an object that was
// applied is found again as it was wanted.
package resource
