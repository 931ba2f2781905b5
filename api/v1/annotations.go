package v1

// Annotations that a user sets on a custom resource.
const (
	// AnnotationAdopt, when "true", lets a resource take over existing objects of its children's names that nothing
	// controls: made by hand, orphaned, or restored from a backup. AdoptWithoutRestart does so without stating the pod template.
	AnnotationAdopt = "app.huolala.cn/adopt"

	// AnnotationRefresh, set to a value that it did not have before, takes over what has changed apart from the spec since
	// the pod template was last built, such as a newer rendering. The pods may restart.
	AnnotationRefresh = "app.huolala.cn/refresh"

	// AnnotationAcceptOverrides, when "true", accepts what admission policies and webhooks of the cluster change in the
	// objects that a resource means, as if the spec had stated it so.
	AnnotationAcceptOverrides = "app.huolala.cn/accept-overrides"

	// AnnotationHold is the name of a ReplicaSet of an App's or ModelBox's Deployment, or HoldLastGood. While the annotation
	// exists, the Deployment and the Service are built from the spec of that ReplicaSet, and the current spec waits.
	AnnotationHold = "app.huolala.cn/hold"

	// AnnotationPromote is the UID of the Deployment of a canary, which it promotes. AnnotationAbort is the same, and ends the
	// canary: the pods of before stay until the spec changes. A UID that is not that of the present canary has no effect.
	AnnotationPromote = "app.huolala.cn/promote"
	AnnotationAbort   = "app.huolala.cn/abort"

	// AnnotationPlan, when "request", requests the effects of the change as the answer to a dry run, as JSON; see package plan.
	// It has no effect on other requests.
	AnnotationPlan = "app.huolala.cn/plan"
)

// Annotations that the operator writes on the objects it makes.
const (
	// AnnotationLastAppliedHash is the hash of the object as it was last applied; on every child.
	AnnotationLastAppliedHash = "app.huolala.cn/last-applied-hash"

	// AnnotationLastAppliedSpec is the custom resource's spec that a workload object was built from: JSON, or, where
	// that is long, "gzip:" and base64, or "sha256:" and the hash alone.
	AnnotationLastAppliedSpec = "app.huolala.cn/last-applied-spec"

	// AnnotationLastAppliedInputs is all else that shaped the pod template of a workload object, as JSON.
	AnnotationLastAppliedInputs = "app.huolala.cn/last-applied-inputs"

	// AnnotationKeptLabels lists the labels of an adopted object that other writers keep, each with the value that the operator
	// would set, as "key=value", separated by commas. The operator applies none of these labels.
	AnnotationKeptLabels = "app.huolala.cn/kept-labels"

	// AnnotationHeld is the ReplicaSet that a Deployment was built for, as JSON, during a hold by AnnotationHold or a rollback.
	AnnotationHeld = "app.huolala.cn/held"

	// AnnotationScheduleSince is the time since which the schedule of a Task's CronJob counts, in RFC 3339; on a CronJob whose schedule, time
	// zone, deadline or suspension has changed since its creation.
	AnnotationScheduleSince = "app.huolala.cn/schedule-since"

	// AnnotationRollout is the hash of what a rollout is asked for by: the fields of the spec that the pods depend on, AnnotationRefresh and the command;
	// on the Job of a command before the rollout.
	AnnotationRollout = "app.huolala.cn/rollout"

	// AnnotationConfig is the sum of the content that pods use of ConfigMaps and Secrets; on pods, once that has changed while
	// spec.configRollout was OnChange.
	AnnotationConfig = "app.huolala.cn/config"
)

// AdoptWithoutRestart is the value of AnnotationAdopt with which an App or ModelBox keeps the pod template of an adopted
// Deployment, until its spec or AnnotationRefresh changes.
const AdoptWithoutRestart = "without-restart"

// HoldLastGood is the value of AnnotationHold for the ReplicaSet in status.lastGood.
const HoldLastGood = "last-good"

// AnnotationRetainedFor is the custom resource of a retained object, as "<kind>.<name>": a database's claims and Secret outlive
// the resource. A new resource of the same kind and name may use the object again.
const AnnotationRetainedFor = "app.huolala.cn/retained-for"

// AnnotationTutorialSpec is where the operators of the tutorials that this one replaces kept the last applied spec, on
// the custom resource itself. It is read when their Deployment is taken over, and never written.
const AnnotationTutorialSpec = "spec"

// Labels of the operator's objects, in addition to the label of each kind. The first four are Kubernetes' recommended labels
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/).
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// ManagedBy is the value of LabelManagedBy on every object and pod of this operator.
	ManagedBy = "app-operator"

	// LabelCanary names the resource of a canary: the label is on the canary's Deployment and its pods, and in its selector.
	LabelCanary = "app.huolala.cn/canary"

	// LabelBeforeRollout names the resource of a Job before a rollout: the label is on the Job and its pods.
	LabelBeforeRollout = "app.huolala.cn/before-rollout"

	// LabelRun names the resource of a Job that a user has started by kubectl happ run: the label is on the Job and its pods.
	LabelRun = "app.huolala.cn/run"

	// LabelPart names the component of a CloudManager that an object or a pod belongs to. In the selector of a UnitedDeployment's
	// workload, it is the Deployment's name.
	LabelPart = "app.huolala.cn/component"
)

// FieldManagerPrefix begins the names of the field managers of this operator's apply requests. The kind in lower case follows.
const FieldManagerPrefix = ManagedBy + "/"
