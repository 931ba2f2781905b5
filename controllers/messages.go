package controllers

// What conditions, events and logs say. Each says what is wrong, which object and field it is about, and what to do.
const (
	messageDefaultsInForce     = "the defaults and the sizes are in force"
	messageDefaultsCounted     = "the defaults count for %s: %d with the present ones, %d to take them with the next change"
	messageRolledOut           = "%[1]d of %[1]d resources have the present defaults"
	messageNextChange          = "%s to take the present defaults with the next change"
	messageWaveOfOthers        = "%s to take the present defaults in the waves of AppDefaults default of namespace %s, whose status has the rollout"
	messageWaveBegins          = "wave %d begins with %s: %s"
	messageWaveUnderWay        = "wave %d is under way with %s: %s. For a later wave: %d, skipped for now: %d"
	messageWaveWaits           = "waiting for the next wave: %s"
	messageWaveUnread          = "waiting for the next wave: %s; large resources of namespace %s have changed and are still to be read"
	messageWaveStalled         = "the rollout has stopped: %s. Without the present defaults: %s. Change the AppDefaults, fix these resources, or hold or pause them to go on without them"
	messageWaveLate            = "not Ready for the soak within an hour and the soak"
	messageWaveSkipped         = "the rollout has skipped %s (in a rollout of its own, paused, held, rolled back from a change of its own, with a canary or a command before the rollout, or with the pods of before an adoption): %s; and %d that cannot take the defaults. What is skipped takes the defaults once it can"
	messageListedMore          = "%s and %d more"
	messageDefaultsLastValid   = "the last valid spec stays in force; fix the AppDefaults: "
	messageDefaultsNoneValid   = "no valid spec is known, so Apps and sized workloads keep what they have and take no change; fix the AppDefaults: "
	messageDeploymentOfEarlier = "Waiting for the garbage collector to remove Deployment %s, which an earlier %s with this name owned"
	messageDeploymentMissing   = "Deployment %s does not exist. Create it, or set spec.template to let the operator create it"
	messageDeploymentDeleted   = "Waiting for Deployment %s to be deleted. If the deletion does not end, check its metadata.finalizers: each names a controller that the deletion waits for"
	messageNotScaled           = "Deployment %s is not scaled to %d replicas while spec.paused is true"
	messageNumberOverridden    = "Deployment %s has %d replicas in place of %d: another writer, or a policy of the cluster, changes the number"
	messageScaled              = "Deployment %s is scaled to %d replicas"
	messageOnlyScaled          = "; it existed before, so the operator only scales it and does not use spec.template"
	messageUpgradeable         = "no operation is in progress that an upgrade would interrupt"
	messageNotUpgradeable      = "the StatefulSet of these pods has not been recreated yet; see the status of the CloudManager: "
)
