package apply

import "huolala.cn/app-operator/internal/claim"

// The texts of conditions, events and logs. Each has the fault, the object and field, and the remedy.
const (
	messageBeingReplaced     = "Waiting for %s %s to be replaced; its pods are not changed"
	messageReplacedWithPods  = "Waiting for %s %s to be replaced, with its pods"
	messageOverridden        = "The API server did not keep %s of %s %s as applied (an admission policy, a webhook or a disabled feature changes it). Set it to the value that the cluster uses, remove it, or change the policy. Retrying every 5m."
	messageFieldConflict     = "%s keeps changing %s of %s %s: the operator repaired it %d times in a minute and now repairs it less often. Stop the other writer, or, if the spec has the field, set its value there"
	messageNamespaceDeleted  = "the namespace is being deleted; the operator does not create %s"
	messageFieldUnknown      = "%s: %s. The Kubernetes version of this cluster does not know the field; remove it"
	messageUnreachable       = ": the API server cannot be reached; retrying"
	messageRejected          = " is rejected by the API server: "
	messageImmutable         = ". The object is unchanged. Restore the previous value"
	messageNodePortTaken     = ". Another Service in the cluster uses this node port. Set another nodePort, remove it to have one assigned, or free the port. Retrying every 1m"
	messageResizeFailed      = ". Restore the previous size, or allow volume expansion in the StorageClass. Retrying every 1m"
	messageMustBeRetained    = "%s %s must be retained: it requires the annotation %s: %s and no owner reference"
	messageClaimMissing      = "%s %s does not exist; its StatefulSet creates it"
	messageBeingRemoved      = "Waiting for the deletion of %s %s, which the spec no longer asks for" + claim.CheckFinalizers
	messageKindUnknown       = "%s cannot be written: the cluster no longer has the kind %s (%s). Install the kind again, or remove the field from the spec; the operator checks again every minute"
	messageOwnerUnreadable   = "cannot read whether this resource is being deleted: "
	messageNotAdoptableField = ". The object is unchanged and cannot be adopted, because Kubernetes sets the field only at creation. " +
		"Delete %s to let the operator recreate it, or rename this resource"
	messageNotAdoptable = ". The object is unchanged and cannot be adopted: its selector, serviceName or volumeClaimTemplates are not those of the database, " +
		"and Kubernetes cannot change them. A recreated StatefulSet would begin with empty volumes. Give the database another name and copy the data to it"
	messageOrDelete       = ", or delete the %s to recreate it"
	messageOrDeleteOrphan = ", or delete the %s with --cascade=orphan to recreate it and keep its pods"
	messageMoreTaken      = ". %d more objects of others have names of this resource's objects"
	messageAdditionsLost  = "Cannot keep what other managers have added to the object that is created again; its pods restart without the additions"
	messageRetrying       = ": %s; retrying"
	messageUnchanged      = " is unchanged: "
)
