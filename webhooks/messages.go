package webhooks

// The texts of warnings and logs. Each names the problem, the object, the field, and the remedy.
const (
	messageAdoptsWorkload     = "containers not in the spec are removed, other fields and labels kept, managed-by and missing labels set, and pods replaced if the template changes"
	messageAdoptsAsItIs       = "its pod template and any pods stay as they are until the spec changes, labels are kept, missing ones and managed-by are set"
	messageAdoptsOther        = "fields and labels not in the spec are kept, missing labels and managed-by are set, and no pod restarts"
	messageAdoptsService      = "ports not in the spec are removed, other fields and labels are kept, missing labels and managed-by are set"
	messageUnlessServesOthers = " unless it serves pods of others"
	messageUnlessAboutOthers  = " unless it is about pods or Services of others"
	messageWarningUnreadable  = "Cannot read an object that a warning depends on"
	messageReplicasUnstated   = "spec.replicas: is not set, so %s cannot read the scale of this %s; set it once, to any number"
	messagePodsRejected       = "namespace %s rejects the pods of %s by its Pod Security Standard %s: %s. Set securityContext and podSecurityContext, or choose another namespace"
	messageProfileUndone      = "%s: restricted is undone in the pods of %s: %s. Remove these fields, or state securityProfile only if the exception is meant"
	messagePlanBusy           = "the operator is busy; run the command again in a second"
	messagePlanUnknown        = "the resource is not known yet, run it again"
	messagePlanFailed         = "Cannot make a plan"
	messageNoCertificate      = "webhooks require a certificate: set POD_NAMESPACE to have the manager create it, set --webhook-cert-dir to its directory, or set ENABLE_WEBHOOKS=false"
	messageDisabled           = "Webhooks are disabled: invalid specs are reported in the status instead"
	messageAutoscalingRemoved = "spec.autoscaling: is removed, so the number of pods changes from %d to %d (spec.replicas). To keep the current number, remove spec.replicas"
	messageReplicasIgnored    = "spec.replicas: has no effect, because HorizontalPodAutoscaler %s scales Deployment %s. Change the limits of the autoscaler, or remove it; 0 stops the pods all the same"
	messageOtherAutoscaler    = "spec.autoscaling: %[1]s scales Deployment %[2]s already. Delete %[1]s, or remove spec.autoscaling"
	messageSharedHost         = "spec.ingress: %s is also routed to %s, and the ingress controller decides which one gets the requests. Use another host or path"
	messageNothingReferred    = "spec.configRollout: has no effect, because the pods use no ConfigMap or Secret"
	messageSecretsUnfollowed  = "spec.configRollout: the operator does not follow Secrets in this cluster, so a change of %s replaces no pods"
	messageNotReviewed        = "the operator is busy and did not check the spec; it reports errors in the status"
	messageOwnedByOther       = "%s %s exists and is owned by another resource; the operator does not modify it. Rename or delete one of them"
	messageScaledByOther      = "Deployment %s is scaled by another resource or an autoscaler; the status of this resource names it. Change spec.deploymentName, or delete the other one"
	messageSomeAutoscaler     = "the HorizontalPodAutoscaler that targets it"
	messageOtherResource      = "another resource"
	messageStaysRolledBack    = "spec: is rolled back, and applying it again changes nothing: "
)

// What the warnings of an adoption are made of.
const (
	messageAdopted        = "%s %s exists and will be adopted"
	messageAdoptedLater   = " once spec.paused is false"
	messageSeeFieldsFirst = "To see the fields first, apply it with spec.paused: true, then change it with --dry-run=server"
	messageSeeFieldsShort = "To see the fields, apply it paused and dry-run a change"
	messagePodsReplaced   = "replaces its pods"
	messageNoPodRestarts  = "no pod restarts"
	messageNothingElse    = "nothing else changes"
	messageFieldsRemoved  = "removes "
	messageFieldsKept     = "keeps "
	messageFieldsChanged  = "changes "
	messageLabelsSet      = "sets labels "
	messageFieldsAndMore  = "%s and %d more"
	messageFieldsCount    = "%d fields"
)
