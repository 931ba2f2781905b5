package v1

// Condition types of every kind, by kstatus's meaning
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus). Ready is good when True; Reconciling and
// Stalled are abnormal when True.
const (
	// ConditionReady is True when every wanted pod runs the current spec and is available. Its reason is the one word
	// that "kubectl get" shows as STATUS.
	ConditionReady = "Ready"

	// ConditionReconciling is True while the operator or the cluster works towards the spec.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True when nothing more happens until somebody acts.
	ConditionStalled = "Stalled"
)

// ConditionApplied is True when the current generation of the spec is in force: every child object is as the spec asks.
// While it is False, its reason says why, and an earlier spec stays in force. It is good when True.
const ConditionApplied = "Applied"

// ConditionReplicasUnstated is True while an autoscaler targets a custom resource that does not state spec.replicas, so that
// its scale subresource cannot be read. It is abnormal when True.
const ConditionReplicasUnstated = "ReplicasUnstated"

// ConditionSynced is a UnitedDeployment's. It is True when the Deployment that it names wants the number of pods that it
// is to be held at, whatever the pods do. It is good when True.
const ConditionSynced = "Synced"

// Conditions of a CloudManager. Those of its tiers are good when True: every wanted pod of the tier runs the current spec
// and is available.
const (
	ConditionDatabaseReady = "DatabaseReady"
	ConditionIdentityReady = "IdentityReady"
	ConditionFrontReady    = "FrontReady"
	// ConditionPasswordInClearText is abnormal when True: whoever may read the resource may read the password.
	ConditionPasswordInClearText = "PasswordInClearText"
)

// Reasons of a condition when all is well or under way.
const (
	// ReasonReady: every wanted pod runs the current spec and is available.
	ReasonReady = "Ready"
	// ReasonScaledToZero: no pod is wanted and none runs.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonProgressing: pods are being created, updated or removed.
	ReasonProgressing = "Progressing"
	// ReasonSettled: there is nothing left to do.
	ReasonSettled = "Settled"
	// ReasonSynced: the Deployment wants the number of pods that it is held at.
	ReasonSynced = "Synced"
	// ReasonDependencyNotReady: a tier is made once the one before it is up.
	ReasonDependencyNotReady = "DependencyNotReady"
	// ReasonPasswordInSpec: the spec itself has the password.
	ReasonPasswordInSpec = "PasswordInSpec"
	// ReasonPasswordInSecret: only Secrets have the password.
	ReasonPasswordInSecret = "PasswordInSecret"
	// ReasonPaused: spec.paused stops all writes to the children.
	ReasonPaused = "Paused"
	// ReasonNotStalled: nothing is in the way.
	ReasonNotStalled = "NotStalled"
	// ReasonTerminating: the namespace is being deleted, nothing can be created in it.
	ReasonTerminating = "NamespaceTerminating"
)

// Reasons of the condition Applied when it is True.
const (
	// ReasonApplied: all child objects are as the spec asks.
	ReasonApplied = "Applied"
	// ReasonOverridden: all is applied, and an admission policy, a webhook or a disabled feature changes some fields.
	ReasonOverridden = "Overridden"
	// ReasonReplicasIgnored: all is applied but spec.replicas, since an autoscaler decides on the number of pods.
	ReasonReplicasIgnored = "ReplicasIgnored"
)

// Reasons that name what is in the way of the operator.
const (
	// ReasonResourceExists: an object of a child's name exists and is not ours.
	ReasonResourceExists = "ResourceExists"
	// ReasonDeploymentNotFound: the Deployment that a UnitedDeployment names does not exist, and there is no template.
	ReasonDeploymentNotFound = "DeploymentNotFound"
	// ReasonScaleConflict: the Deployment that a UnitedDeployment names is scaled by another: a resource of ours that it
	// belongs to, an older UnitedDeployment, or an autoscaler.
	ReasonScaleConflict = "ScaleConflict"
	// ReasonImmutableField: the spec asks for a change that the API server allows only at creation.
	ReasonImmutableField = "ImmutableField"
	// ReasonInvalid: the API server refuses a child; the message has its words.
	ReasonInvalid = "Invalid"
	// ReasonFieldConflict: another writer keeps changing a field that is ours.
	ReasonFieldConflict = "FieldConflict"
	// ReasonNodePortTaken: another Service has the port of the nodes that the spec asks for.
	ReasonNodePortTaken = "NodePortTaken"
	// ReasonVolumeResizeFailed: a volume claim cannot be given the size that the spec asks for.
	ReasonVolumeResizeFailed = "VolumeResizeFailed"
	// ReasonPasswordMismatch: the spec asks for another password than the database was first started with.
	ReasonPasswordMismatch = "PasswordMismatch"
	// ReasonPasswordLost: there are volumes of the database, and nothing knows the password of what is on them.
	ReasonPasswordLost = "PasswordLost"
	// ReasonSecretNotFound: the Secret that the spec names does not exist, or lacks the key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonForbidden: the operator may not write a child: a missing permission, a quota or an admission policy.
	ReasonForbidden = "Forbidden"
	// ReasonApplyFailed: a request to the API server failed and is tried again.
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons that name what is in the way of the pods.
const (
	// ReasonImagePullBackOff: an image cannot be pulled.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonInvalidImageName: an image's name is not one.
	ReasonInvalidImageName = "InvalidImageName"
	// ReasonCrashLoopBackOff: a container ends again and again.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonOOMKilled: a container was killed because it used more memory than its limit.
	ReasonOOMKilled = "OOMKilled"
	// ReasonContainerConfigError: a container cannot be made: a ConfigMap, Secret or key that it names is missing.
	ReasonContainerConfigError = "CreateContainerConfigError"
	// ReasonContainerError: a container cannot be started; the message has the kubelet's words.
	ReasonContainerError = "RunContainerError"
	// ReasonUnschedulable: no node takes a pod; the message has the scheduler's words.
	ReasonUnschedulable = "Unschedulable"
	// ReasonQuotaExceeded: a quota of the namespace is in the way of more pods.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonPodsRejected: the API server refuses the pods; the message has its words.
	ReasonPodsRejected = "PodsRejected"
	// ReasonProgressDeadlineExceeded: the rollout did not finish in time, and no pod says why.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)
