package resource

// Errors of the patch of the pod template.
const (
	messageNoTemplateJSON       = "the pod template has no JSON form"
	messageNoPatchSchema        = "the pod template has no patch schema"
	messagePatchNotJSON         = "must be JSON"
	messageNotObject            = "must be an object"
	messageNotMergePatch        = "is not a strategic merge patch for a pod template; check its directives ($patch, $setElementOrder, $retainKeys, $deleteFromPrimitiveList) and that each list has items of one type"
	messageNoTemplateFromPatch  = "does not produce a pod template: "
	messageFieldUnknown         = "; a pod template has no such field"
	messageMainContainerRemoved = "must not remove the main container %q"
	messageFurtherContainer     = "is required for a further container; the main container is named %q"
	messageWrongType            = "%s must be %s; this %s is not"
	messageInvalidScalar        = "it contains an invalid quantity, time or number"
	messageSetByOperator        = "is set by the operator"
	messageSetInPodLabels       = "is not set by a patch; set it in podLabels"
	messageItemWithoutKey       = "identifies the item of the list"
)

// Errors of the ports and the labels of a workload.
const (
	messagePortNotFound        = "no container port with protocol %[2]s is named %[1]s; use the number of the container port, like targetPort: 8080 with name: %[1]s, or declare a port named %[1]s in containerPorts or containers"
	messageNumberAsName        = "must be a number or the name of a container port; write the number without quotation marks, like targetPort: %s"
	messageKeptPort            = "container port %s by %s for the Service"
	messageKeptScrape          = "container port for the PodMonitor"
	messageNoPortToScrape      = "requires a TCP port of the main container; add one, or remove podMonitor"
	messageScrapedPortNotFound = "must be the name or the number of a TCP port that a container declares: "
	messageLabelSelected       = "the selector of the existing workload %s requires %q and cannot be changed; remove the label, or delete the workload to have it recreated"
)

// Errors of the pod of a Task.
const (
	messageRunNeedsGate       = "is the operator's: its readiness gate keeps Services from sending requests to a run; remove the field from the patch"
	messageContainerNeverEnds = "is a further container, which keeps a run from ending; write it in initContainers with \"restartPolicy: Always\""
	messageContainerOfApp     = "is the name of another container of the pod, which it has of the App or of the Task; choose another name"
	messageLabelsOfApp        = "have all labels that select the pods of the App, so that its Service would lead to the runs; remove one"
)

// Errors of sizes and defaults.
const (
	messageSizeEmpty       = "requests or limits"
	messageSizeUndefined   = "is no size that exists: choose one of %s, or define it in sizes of the AppDefaults of the namespace"
	messageFromDefaults    = " (by the AppDefaults that count; withoutDefaults names fields that do not)"
	messageDefaultsTooLong = "the defaults that count for it are too long: %d bytes compressed, and at most %d are recorded. Shorten the AppDefaults of the namespace or of the operator, or name fields in withoutDefaults"
)
