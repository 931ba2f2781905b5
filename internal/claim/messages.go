package claim

import appv1 "huolala.cn/app-operator/api/v1"

// What conditions, plans and warnings say of an object that is in the way. Each says what is wrong, which object it is about, and what to do.
const (
	messageOwnedByOther     = "%s exists and is owned by %s %s; the operator does not modify it. Rename or delete one of them"
	messageOrphaned         = `%s was applied by the operator but has lost its owner reference. Possible causes are kubectl replace, an edit, or the deletion of an earlier %s with --cascade=orphan. The operator does not modify the object. To restore the object in place, run "%s"%s`
	messageNotOwned         = `%s exists and was not created by this resource; the operator does not modify it. Rename or delete one of them, or run "%s" to adopt it`
	messageServiceNotOwned  = `%s exists and was not created by this resource; the operator does not modify it. Rename or delete one of them, or, if the Service selects no pods of others, run "%s" to adopt it`
	messageServesOthers     = "Service %s exists and is for pods that do not belong to this resource: the Service selects pods by %s, this resource by %s. The operator neither modifies nor adopts it, as its clients would lose these pods. Give the Service of this resource another name (service.name), or delete the existing Service once nothing uses it"
	messageAccountOfOthers  = "ServiceAccount %s exists, and pods that do not belong to this resource run as it. The operator neither modifies nor adopts it, as these pods would lose their token, and the account with this resource. Have the pods run as the account as it is (spec.serviceAccountName in place of spec.serviceAccount), or rename this resource"
	messageAccountUnknown   = "ServiceAccount %s exists, and whether other pods run as it is unknown: the Deployments, StatefulSets, DaemonSets, CronJobs and Jobs of the namespace are too long to be read for this question. The operator neither modifies nor adopts it. Have the pods run as the account as it is (spec.serviceAccountName in place of spec.serviceAccount), or rename this resource"
	messageConcernsOthers   = "%s exists and is for pods or Services that do not belong to this resource; the operator neither modifies nor adopts it. Rename this resource, or change or delete the object"
	messageRetainedForOther = "%s exists and is retained for %s; the operator does not modify it. Rename one of them, or annotate the %s with %s: %s to hand it over"
	messageBeingDeleted     = "Waiting for %s %s to be deleted before recreating it" + CheckFinalizers
	messageOfEarlierOwner   = "Waiting for the garbage collector to remove %s %s of an earlier %s with this name before recreating it"
	messageOrDelete         = ", or delete the %s to recreate it"

	// commandAdopt sets the annotation that adopts on the stored resource alone: in a file, it would outlive the adoption.
	commandAdopt = "kubectl annotate %s/%s -n %s " + appv1.AnnotationAdopt + "=%s"

	// CheckFinalizers is what to do about a deletion that does not end.
	CheckFinalizers = ". If the deletion does not end, check its metadata.finalizers: each names a controller that the deletion waits for"
)
