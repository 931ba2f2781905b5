package webhooks

// What warnings and logs say. Each says what is wrong, which object and field it is about, and what to do.
const (
	messageAdoptsWorkload     = "containers not in the spec are removed, other fields are kept, and pods are replaced if the template changes"
	messageAdoptsAsItIs       = "its pod template and its pods stay as they are until the spec changes"
	messageAdoptsService      = "ports not in the spec are removed, other fields are kept"
	messageWarningUnreadable  = "Cannot read an object that a warning depends on"
	messageReplicasUnstated   = "spec.replicas: is not set, so HorizontalPodAutoscaler %s cannot read the scale of this %s; set it once, to any number"
	messagePodsRejected       = "namespace %s rejects the pods of %s by its Pod Security Standard %s: %s. Set securityContext and podSecurityContext, or choose another namespace"
	messagePlanBusy           = "busy, run it again"
	messagePlanUnknown        = "the resource is not known yet, run it again"
	messagePlanFailed         = "Cannot make a plan"
	messageNoCertificate      = "webhooks require a certificate: set POD_NAMESPACE to have the manager create it, set --webhook-cert-dir to its directory, or set ENABLE_WEBHOOKS=false"
	messageDisabled           = "Webhooks are disabled: invalid specs are reported in the status instead"
	messageAutoscalingRemoved = "spec.autoscaling: is removed: %d pods become %d, which is spec.replicas"
	messageOtherAutoscaler    = "spec.autoscaling: HorizontalPodAutoscaler %s scales Deployment %s already; delete it, or remove autoscaling"
	messageSharedHost         = "spec.ingress: %s leads to %s too; the controller decides which of the two answers"
	messageNothingReferred    = "spec.configRollout: nothing is referred to: the pods use no ConfigMap or Secret"
	messageSecretsUnfollowed  = "spec.configRollout: Secrets are not followed in this cluster; a change of %s rolls nothing"
)
