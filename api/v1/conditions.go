package v1

// Condition types of every kind, by kstatus's meaning
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus). Ready is good when True; Reconciling and
// Stalled are abnormal when True.
const (
	// ConditionReady is True when every desired pod runs the current spec and is available. Its reason is the STATUS of "kubectl
	// get".
	ConditionReady = "Ready"

	// ConditionReconciling is True while the operator or the cluster works towards the spec.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True when a user has to act, unless the cause ends by itself.
	ConditionStalled = "Stalled"
)

// ConditionApplied is True when the current generation of the spec is in force: every child object matches the spec. While it is
// False, its reason is the cause, and an earlier spec stays in force. It is good when True.
const ConditionApplied = "Applied"

// ConditionReplicasUnstated is True while an autoscaler targets a custom resource that does not state spec.replicas, so that
// its scale subresource cannot be read. It is abnormal when True.
const ConditionReplicasUnstated = "ReplicasUnstated"

// ConditionConfigFollowed exists while spec.configRollout is OnChange. It is True when the operator sees changes of the
// ConfigMaps that the pods use, and of the Secrets if it has the permission. It is good when True.
const ConditionConfigFollowed = "ConfigFollowed"

// Conditions of auxiliary objects; each exists only if the spec has the object. Both are good when True.
const (
	// ConditionExposed is True when the Ingress has an address. It is Unknown while the Ingress has none, as some controllers
	// never write an address.
	ConditionExposed = "Exposed"
	// ConditionAutoscaled is True when the HorizontalPodAutoscaler of the resource decides the number of pods.
	ConditionAutoscaled = "Autoscaled"
)

// ConditionCanaryReady exists while a canary waits for its promotion. It is True when every pod of the canary is ready. It is good
// when True.
const ConditionCanaryReady = "CanaryReady"

// ConditionSynced is a condition of a UnitedDeployment. It is True when the Deployment has the desired number of replicas in its
// spec, whatever the state of its pods. It is good when True.
const ConditionSynced = "Synced"

// ConditionValid is a condition of AppDefaults. It is True when the present spec is in force. While it is False, the last valid spec
// counts. It is good when True.
const ConditionValid = "Valid"

// ConditionRolledOut is a condition of AppDefaults. It is True when each resource that the rollout is about has the present defaults. It is
// good when True.
const ConditionRolledOut = "RolledOut"

// Conditions of a CloudManager. The condition of a tier is good when True: every desired pod of the tier runs the current spec
// and is available.
const (
	ConditionDatabaseReady = "DatabaseReady"
	ConditionIdentityReady = "IdentityReady"
	ConditionFrontReady    = "FrontReady"
	// ConditionPasswordInClearText is abnormal when True: anyone who can read the resource can read the password.
	ConditionPasswordInClearText = "PasswordInClearText"
)

// Reasons of a condition without a problem.
const (
	// ReasonReady: every wanted pod runs the current spec and is available.
	ReasonReady = "Ready"
	// ReasonScaledToZero: scaled to 0 replicas, no pod is running.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonProgressing: pods are being created, updated or removed.
	ReasonProgressing = "Progressing"
	// ReasonRolloutPaused: the rollout of the Deployment is paused, and its pods do not match its pod template.
	ReasonRolloutPaused = "RolloutPaused"
	// ReasonSettled: there is nothing left to do.
	ReasonSettled = "Settled"
	// ReasonSynced: the Deployment has the desired number of replicas.
	ReasonSynced = "Synced"
	// ReasonDependencyNotReady: a tier is created only after the previous tier is ready.
	ReasonDependencyNotReady = "DependencyNotReady"
	// ReasonPasswordInSpec: the spec itself has the password.
	ReasonPasswordInSpec = "PasswordInSpec"
	// ReasonPasswordInSecret: only Secrets have the password.
	ReasonPasswordInSecret = "PasswordInSecret"
	// ReasonPaused: spec.paused stops all writes to the children.
	ReasonPaused = "Paused"
	// ReasonHeld: an annotation holds an earlier ReplicaSet; the spec waits.
	ReasonHeld = "Held"
	// ReasonRolledBack: the rollout of the spec stalled, and the operator rolled back to the last ReplicaSet that was ready,
	// according to spec.rollback.
	ReasonRolledBack = "RolledBack"
	// ReasonCanary: a change of the pods runs in a canary, and waits for its promotion.
	ReasonCanary = "Canary"
	// ReasonFollowed: changes of the content that pods use are seen.
	ReasonFollowed = "Followed"
	// ReasonConfigRollout: pods are replaced, as the content that they use has changed; of an event.
	ReasonConfigRollout = "ConfigRollout"
	// ReasonNotStalled: nothing is in the way.
	ReasonNotStalled = "NotStalled"
	// ReasonTerminating: the namespace is being deleted, nothing can be created in it.
	ReasonTerminating = "NamespaceTerminating"
)

// Reasons of a command before a rollout.
const (
	// ReasonBeforeRollout: a change of the pods waits for the command of spec.beforeRollout.
	ReasonBeforeRollout = "BeforeRollout"
	// ReasonBeforeRolloutFailed: the command has failed, and nothing is rolled out.
	ReasonBeforeRolloutFailed = "BeforeRolloutFailed"
	// ReasonBeforeRolloutStarted is the reason of an event: the Job of the command is created.
	ReasonBeforeRolloutStarted = "BeforeRolloutStarted"
)

// Reasons of the condition Ready of a Task, in addition to DependencyNotReady, where the App that the Task names has no Deployment.
const (
	// ReasonNoRun: no run was due yet, and none has ended.
	ReasonNoRun = "NoRun"
	// ReasonRunning: a run has started and has not ended, and the run before has not failed.
	ReasonRunning = "Running"
	// ReasonSucceeded: the latest run that has ended has succeeded.
	ReasonSucceeded = "Succeeded"
	// ReasonRunFailed: the latest run that has ended has failed.
	ReasonRunFailed = "RunFailed"
	// ReasonRunMissed: a run that was due has not started.
	ReasonRunMissed = "RunMissed"
	// ReasonTooManyRuns: the CronJob has more Jobs than the operator judges.
	ReasonTooManyRuns = "TooManyRuns"
	// ReasonSuspended: spec.suspended starts no runs.
	ReasonSuspended = "Suspended"
)

// Reasons of the condition RolledOut of AppDefaults.
const (
	// ReasonRolledOut: each resource that the rollout is about has the present defaults.
	ReasonRolledOut = "RolledOut"
	// ReasonNextChange: resources take the present defaults with their next change.
	ReasonNextChange = "NextChange"
	// ReasonWave: a wave is under way, or soaks, or the next one is about to begin.
	ReasonWave = "Wave"
	// ReasonWaveStalled: a resource of a wave has stalled, and no further wave begins.
	ReasonWaveStalled = "Stalled"
	// ReasonSkipped: all that is left are resources that the rollout leaves out, or that cannot take the defaults.
	ReasonSkipped = "Skipped"
)

// Reasons of the events of a canary.
const (
	// ReasonCanaryStarted: the first pods of a change are created.
	ReasonCanaryStarted = "CanaryStarted"
	// ReasonCanaryPromoted: the change of a canary is rolled out to all pods.
	ReasonCanaryPromoted = "CanaryPromoted"
	// ReasonCanaryAborted: a canary is removed without its promotion.
	ReasonCanaryAborted = "CanaryAborted"
)

// Reasons of the condition Applied when it is True.
const (
	// ReasonApplied: all child objects match the spec.
	ReasonApplied = "Applied"
	// ReasonOverridden: all is applied, and an admission policy, a webhook or a disabled feature changes some fields.
	ReasonOverridden = "Overridden"
	// ReasonReplicasIgnored: all is applied except for spec.replicas, as an autoscaler decides the number of pods.
	ReasonReplicasIgnored = "ReplicasIgnored"
	// ReasonTemplateKept: all is applied except for the pod template, which is kept from before the adoption.
	ReasonTemplateKept = "TemplateKept"
)

// Reasons of the conditions Exposed and Autoscaled.
const (
	// ReasonAccepted: the controller of the Ingress has accepted it.
	ReasonAccepted = "Accepted"
	// ReasonNoAddress: the Ingress has no address, or its controller writes none.
	ReasonNoAddress = "NoAddress"
	// ReasonAutoscaling: the HorizontalPodAutoscaler decides the number of pods.
	ReasonAutoscaling = "Autoscaling"
	// ReasonAtMaximum: the HorizontalPodAutoscaler would scale further than maxReplicas.
	ReasonAtMaximum = "AtMaximum"
	// ReasonMetricsMissing: the HorizontalPodAutoscaler has no metrics; the message quotes its status.
	ReasonMetricsMissing = "MetricsMissing"
	// ReasonAutoscalerExists: another HorizontalPodAutoscaler scales the Deployment.
	ReasonAutoscalerExists = "AutoscalerExists"
)

// Reasons of a failure of the operator.
const (
	// ReasonResourceExists: a foreign object with a child's name exists.
	ReasonResourceExists = "ResourceExists"
	// ReasonAdoptionRestarts: an adoption would restart the pods; no object is changed.
	ReasonAdoptionRestarts = "AdoptionRestarts"
	// ReasonRevisionNotFound: there is no ReplicaSet to hold, or it has no record of its spec.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonDeploymentNotFound: the Deployment that a UnitedDeployment names does not exist, and there is no template.
	ReasonDeploymentNotFound = "DeploymentNotFound"
	// ReasonScaleConflict: another object scales the Deployment of a UnitedDeployment: a custom resource that owns the
	// Deployment, an older UnitedDeployment, or an autoscaler.
	ReasonScaleConflict = "ScaleConflict"
	// ReasonImmutableField: the spec changes a field that the API server allows only at creation.
	ReasonImmutableField = "ImmutableField"
	// ReasonInvalid: the API server rejects a child; the message quotes the error.
	ReasonInvalid = "Invalid"
	// ReasonFieldConflict: another writer keeps changing a field that the operator owns.
	ReasonFieldConflict = "FieldConflict"
	// ReasonNodePortTaken: another Service has the node port of the spec.
	ReasonNodePortTaken = "NodePortTaken"
	// ReasonVolumeResizeFailed: a volume claim cannot be resized to the size in the spec.
	ReasonVolumeResizeFailed = "VolumeResizeFailed"
	// ReasonPasswordMismatch: the password of the spec differs from the password of the database's first start.
	ReasonPasswordMismatch = "PasswordMismatch"
	// ReasonPasswordLost: volumes of the database exist, and the password of their data is unknown.
	ReasonPasswordLost = "PasswordLost"
	// ReasonSecretNotFound: the Secret that the spec names does not exist, or lacks the key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonForbidden: the operator may not write a child, because of a missing permission, a quota or an admission policy.
	ReasonForbidden = "Forbidden"
	// ReasonTooManyReferences: pods use more ConfigMaps and Secrets than can be recorded.
	ReasonTooManyReferences = "TooManyReferences"
	// ReasonReadFailed: a ConfigMap or Secret could not be read.
	ReasonReadFailed = "ReadFailed"
	// ReasonApplyFailed: a request to the API server failed and is tried again.
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons of a failure of objects whose kinds a cluster may lack.
const (
	// ReasonKindMissing: the cluster lacks the kind of an object.
	ReasonKindMissing = "KindMissing"
	// ReasonNotAccepted: a Gateway does not accept the HTTPRoute; the message has its controller's words.
	ReasonNotAccepted = "NotAccepted"
	// ReasonNoController: no controller has answered for a Gateway that the HTTPRoute names.
	ReasonNoController = "NoController"
)

// Reasons of a failure of the pods.
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
	// ReasonProgressDeadlineExceeded: the rollout did not finish in time, and no pod reports a cause.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)
