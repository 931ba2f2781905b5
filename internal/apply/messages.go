package apply

// What conditions, events and logs say. Each says what is wrong, which object and field it is about, and what to do.
const (
	messageOwnedByOther      = "%s exists and is owned by %s %s; the operator does not modify it. Rename or delete one of them"
	messageOrphaned          = `%s was applied by the operator but has lost its owner reference. Possible causes are kubectl replace, an edit, or the deletion of an earlier %s with --cascade=orphan. The operator does not modify the object. To restore the object in place, annotate this resource with %s: "true"%s`
	messageNotOwned          = `%s exists and was not created by this resource; the operator does not modify it. Rename or delete one of them, or annotate this resource with %s: "true" to adopt it`
	messageServiceNotOwned   = `%s exists and was not created by this resource; the operator does not modify it. Rename or delete one of them, or, if the Service selects no pods of others, annotate this resource with %s: "true" to adopt it`
	messageServesOthers      = "Service %s exists and is for pods that do not belong to this resource: the Service selects pods by %s, this resource by %s. The operator neither modifies nor adopts it, as its clients would lose these pods. Give the Service of this resource another name (service.name), or delete the existing Service once nothing uses it"
	messageAccountOfOthers   = "ServiceAccount %s exists, and pods that do not belong to this resource run as it. The operator neither modifies nor adopts it, as these pods would lose their token, and the account with this resource. Have the pods run as the account as it is (spec.serviceAccountName in place of spec.serviceAccount), or rename this resource"
	messageConcernsOthers    = "%s exists and is for pods or Services that do not belong to this resource; the operator neither modifies nor adopts it. Rename this resource, or change or delete the object"
	messageRetainedForOther  = "%s exists and is retained for %s; the operator does not modify it. Rename one of them, or annotate the %s with %s: %s to hand it over"
	messageBeingReplaced     = "Waiting for %s %s to be replaced; its pods are not changed"
	messageOverridden        = "The API server did not keep %s of %s %s as applied (an admission policy, a webhook or a disabled feature changes it). Set it to the value that the cluster uses, remove it, or change the policy. Retrying every 5m."
	messageFieldConflict     = "%s keeps changing %s of %s %s: the operator repaired it %d times in a minute and now repairs it less often. Stop the other writer, or, if the spec has the field, set its value there"
	messageNamespaceDeleted  = "the namespace is being deleted; the operator does not create %s"
	messageFieldUnknown      = "%s: %s. The Kubernetes version of this cluster does not know the field; remove it"
	messageUnreachable       = ": the API server cannot be reached; retrying"
	messageRejected          = " is rejected by the API server: "
	messageImmutable         = ". The object is unchanged. Restore the previous value"
	messageNodePortTaken     = ". Another Service in the cluster uses this node port. Set another nodePort, remove it to have one assigned, or free the port. Retrying every 1m"
	messageResizeFailed      = ". Restore the previous size, or allow volume expansion in the StorageClass. Retrying every 1m"
	messageCannotApply       = "cannot apply %s %s: %s"
	messageMustBeRetained    = "%s %s must be retained: it requires the annotation %s: %s and no owner reference"
	messageClaimMissing      = "%s %s does not exist; its StatefulSet creates it"
	messageCheckFinalizers   = ". If the deletion does not end, check its metadata.finalizers: each names a controller that the deletion waits for"
	messageBeingRemoved      = "Waiting for the deletion of %s %s, which the spec no longer asks for" + messageCheckFinalizers
	messageBeingDeleted      = "Waiting for %s %s to be deleted before recreating it" + messageCheckFinalizers
	messageOfEarlierOwner    = "Waiting for the garbage collector to remove %s %s of an earlier %s with this name before recreating it"
	messageKindUnknown       = "%s cannot be written: the cluster no longer has the kind %s (%s). Install the kind again, or remove the field from the spec; the operator checks again every minute"
	messageSecretValue       = "the reason is not shown because it contains a value of the Secret"
	messageValueHidden       = "(value not shown)"
	messageOwnerUnreadable   = "cannot read whether this resource is being deleted: "
	messageNotAdoptableField = ". The object is unchanged and cannot be adopted, because Kubernetes sets the field only at creation. " +
		"Delete %s to let the operator recreate it, or rename this resource"
	messageNotAdoptable = ". The object is unchanged and cannot be adopted: its selector, serviceName or volumeClaimTemplates are not those of the database, " +
		"and Kubernetes cannot change them. A recreated StatefulSet would begin with empty volumes. Give the database another name and copy the data to it"
	messageOrDelete       = ", or delete the %s to recreate it"
	messageOrDeleteOrphan = ", or delete the %s with --cascade=orphan to recreate it and keep its pods"
	messageRetrying       = ": %s; retrying"
	messageUnchanged      = " is unchanged: "
)
