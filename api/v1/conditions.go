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

	// ConditionStalled is True when nothing more happens until a user acts.
	ConditionStalled = "Stalled"
)

// ConditionApplied is True when the current generation of the spec is in force: every child object is as the spec asks.
// While it is False, its reason says why, and an earlier spec stays in force. It is good when True.
const ConditionApplied = "Applied"

// ConditionReplicasUnstated is True while an autoscaler targets a custom resource that does not state spec.replicas, so that
// its scale subresource cannot be read. It is abnormal when True.
const ConditionReplicasUnstated = "ReplicasUnstated"

// ConditionConfigFollowed is there while spec.configRollout is OnChange. It is True when the operator sees changes of the ConfigMaps
// that the pods use, and of the Secrets if it may. It is good when True.
const ConditionConfigFollowed = "ConfigFollowed"

// Conditions of what stands around the pods; each is there only where the spec asks for it. Both are good when True.
const (
	// ConditionExposed is True when the Ingress has an address. It is Unknown while nobody says so: some controllers
	// never write one.
	ConditionExposed = "Exposed"
	// ConditionAutoscaled is True when the HorizontalPodAutoscaler of the resource decides the number of pods.
	ConditionAutoscaled = "Autoscaled"
)

// ConditionSynced is a UnitedDeployment's. It is True when the Deployment that it names wants the number of pods that it
// is to be held at, whatever the pods do. It is good when True.
const ConditionSynced = "Synced"

// Conditions of a CloudManager. Those of its tiers are good when True: every wanted pod of the tier runs the current spec
// and is available.
const (
	ConditionDatabaseReady = "DatabaseReady"
	ConditionIdentityReady = "IdentityReady"
	ConditionFrontReady    = "FrontReady"
	// ConditionPasswordInClearText is abnormal when True: anyone who can read the resource can read the password.
	ConditionPasswordInClearText = "PasswordInClearText"
)

// Reasons of a condition when all is well or under way.
const (
	// ReasonReady: every wanted pod runs the current spec and is available.
	ReasonReady = "Ready"
	// ReasonScaledToZero: scaled to 0 replicas, no pod is running.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonProgressing: pods are being created, updated or removed.
	ReasonProgressing = "Progressing"
	// ReasonRolloutPaused: the rollouts of the Deployment are paused, and its pods are not the wanted ones.
	ReasonRolloutPaused = "RolloutPaused"
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
	// ReasonHeld: an annotation holds an earlier ReplicaSet; the spec waits.
	ReasonHeld = "Held"
	// ReasonRolledBack: the rollout of the spec stalled, and the operator went back to the last ReplicaSet that was ready, as spec.rollback
	// asks for.
	ReasonRolledBack = "RolledBack"
	// ReasonFollowed: changes of the content that pods use are seen.
	ReasonFollowed = "Followed"
	// ReasonConfigRollout: pods are replaced, as the content that they use has changed; of an event.
	ReasonConfigRollout = "ConfigRollout"
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
	// ReasonTemplateKept: all is applied but the pod template, which is that of before the adoption.
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
	// ReasonMetricsMissing: the HorizontalPodAutoscaler has no figures to scale by; the message has its words.
	ReasonMetricsMissing = "MetricsMissing"
	// ReasonAutoscalerExists: another HorizontalPodAutoscaler scales the Deployment.
	ReasonAutoscalerExists = "AutoscalerExists"
)

// Reasons that name what is in the way of the operator.
const (
	// ReasonResourceExists: an object of a child's name exists and is not ours.
	ReasonResourceExists = "ResourceExists"
	// ReasonAdoptionRestarts: an object cannot be taken over with its pods left as they are; nothing is touched.
	ReasonAdoptionRestarts = "AdoptionRestarts"
	// ReasonRevisionNotFound: there is no ReplicaSet to hold, or it has no record of its spec.
	ReasonRevisionNotFound = "RevisionNotFound"
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
	// ReasonTooManyReferences: pods use more ConfigMaps and Secrets than can be recorded.
	ReasonTooManyReferences = "TooManyReferences"
	// ReasonReadFailed: a ConfigMap or Secret could not be read.
	ReasonReadFailed = "ReadFailed"
	// ReasonApplyFailed: a request to the API server failed and is tried again.
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons that name what is in the way of objects of kinds that a cluster may lack.
const (
	// ReasonKindMissing: the cluster does not have the kind that the spec asks for.
	ReasonKindMissing = "KindMissing"
	// ReasonNotAccepted: a Gateway does not accept the HTTPRoute; the message has its controller's words.
	ReasonNotAccepted = "NotAccepted"
	// ReasonNoController: no controller has answered for a Gateway that the HTTPRoute names.
	ReasonNoController = "NoController"
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
