package controllers

// What conditions, events and logs say. Each says what is wrong, which object and field it is about, and what to do.
const (
	messageSizesInvalid        = "the last valid sizes stay in use; fix the ConfigMap: %s"
	messageSizesValid          = "the sizes are in use"
	messageDeploymentOfEarlier = "Waiting for the garbage collector to remove Deployment %s, which an earlier %s with this name owned"
	messageDeploymentMissing   = "Deployment %s does not exist. Create it, or set spec.template to let the operator create it"
	messageDeploymentDeleted   = "Waiting for Deployment %s to be deleted. If the deletion does not end, check its metadata.finalizers: each names a controller that the deletion waits for"
	messageNotScaled           = "Deployment %s is not scaled to %d replicas while spec.paused is true"
	messageScaled              = "Deployment %s is scaled to %d replicas"
	messageOnlyScaled          = "; it existed before, so the operator only scales it and does not use spec.template"
	messageUpgradeable         = "no operation is in progress that an upgrade would interrupt"
	messageNotUpgradeable      = "the StatefulSet of these pods has not been recreated yet; see the status of the CloudManager: "
)
