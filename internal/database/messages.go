package database

// Messages of conditions and events about a database. Each message says what is wrong, which object and field it is about, and what to do.
const (
	messageOtherVolumes          = "For other volumes, rename the database: a new, empty database is created, and the data of this one is retained"
	messageClassChanged          = "%sclass cannot be changed from %s to %s; restore the previous value. %s"
	messageAccessModesChanged    = "%saccessModes cannot be changed from %v to %v; restore the previous value. %s"
	messageSizeShrinks           = "%ssize cannot shrink from %s to %s, because Kubernetes cannot shrink volumes; restore the previous value. %s"
	messageVolumeStays           = "The volume of PersistentVolumeClaim %s cannot grow to %s%s. Its pod runs with the volume as it is. Check the events of the claim and the limits of its storage"
	messageRetainingVolumes      = "Waiting for the StatefulSet controller to retain the volumes of StatefulSet %s before deleting it"
	messageReleasingClaim        = "Waiting for the StatefulSet controller to remove the owner reference from PersistentVolumeClaim %s before deleting StatefulSet %s"
	messageClaimNotReleased      = "PersistentVolumeClaim %s would be deleted with StatefulSet %s although spec.db.statefulSet.storage.retain is true. The pod of the claim was scaled down, and the StatefulSet controller no longer updates the claim. Remove metadata.ownerReferences from the claim to keep the data, or delete the claim to delete the data"
	messagePasswordMismatch      = "%s differs from the password in Secret %s. The image reads the password only when it initializes an empty volume, and PersistentVolumeClaim %s exists. Use the password of Secret %[2]s again. To change the password, change it in the database first, then in Secret %[2]s, then in spec.db.rootPass or in the Secret of spec.db.rootPassSecretRef"
	messagePasswordLost          = "Secret %[2]s is missing but PersistentVolumeClaim %[1]s exists, so the database password is unknown. Restore the Secret, set spec.db.rootPassSecretRef, or delete the claim (this deletes the data)"
	messagePasswordSecretMissing = "Secret %s of spec.db.rootPassSecretRef %s. Create the Secret or the key, or change spec.db.rootPassSecretRef; the operator checks again every minute"
	messagePasswordInSpec        = "spec.db.rootPass is in clear text: anyone who can read this resource can read it. Move the same password to a Secret, and set spec.db.rootPassSecretRef to that Secret"
	messageSecretUnreadable      = "Cannot read Secret %s; retrying"
	messagePasswordOfReference   = "The password in the Secret of spec.db.rootPassSecretRef"
	messageSecretMissing         = "does not exist"
	messagePasswordUnusable      = "has a password in its key %s with which no container starts: it has the character NUL, or more than 100 KiB"
	messageSecretKeyMissing      = "has no value for the key %q"
	messageSecretForbidden       = "Secret %s cannot be read: %s"
	messagePasswordNotInSpec     = "The password is not in the spec"
	messagePasswordInSecret      = "Secret %s has the database's password"
	messageDefaultClass          = "the cluster's default"
)
