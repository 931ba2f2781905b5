package v1

// Annotations that a user sets on a custom resource.
const (
	// AnnotationPaused stopped all writes to the children in earlier releases. It is no longer read, and warned of:
	// spec.paused has taken its place.
	AnnotationPaused = "app.huolala.cn/paused"

	// AnnotationAdopt, when "true", lets a resource take over existing objects of its children's names that nothing
	// controls: made by hand, orphaned, or restored from a backup.
	AnnotationAdopt = "app.huolala.cn/adopt"

	// AnnotationRefresh, set to a value that it did not have before, takes over what has changed apart from the spec since
	// the pod template was last built, such as a newer rendering. The pods may restart.
	AnnotationRefresh = "app.huolala.cn/refresh"

	// AnnotationAcceptOverrides, when "true", accepts what admission policies and webhooks of the cluster change in the
	// objects that a resource means, as if the spec had stated it so.
	AnnotationAcceptOverrides = "app.huolala.cn/accept-overrides"
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
)

// AnnotationRetainedFor says, as "<kind>.<name>", which custom resource an object is kept for that outlives it: a
// database's claims and its Secret. A resource of that kind and name may take it into use again.
const AnnotationRetainedFor = "app.huolala.cn/retained-for"

// AnnotationTutorialSpec is where the operators of the tutorials that this one replaces kept the last applied spec, on
// the custom resource itself. It is read when their Deployment is taken over, and never written.
const AnnotationTutorialSpec = "spec"

// Labels of the objects that the operator makes. The first four are Kubernetes' recommended ones
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/).
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// ManagedBy is the value of LabelManagedBy on every object and pod of this operator.
	ManagedBy = "app-operator"

	// LabelApp names the App that a pod belongs to. It is the selector of the App's Deployment and Service.
	LabelApp = "app.huolala.cn/app"
	// LabelModelBox names the ModelBox that a pod belongs to. It is the selector of the ModelBox's Deployment and Service.
	LabelModelBox = "app.huolala.cn/modelbox"
	// LabelCloudManager names the CloudManager that an object or a pod belongs to, LabelPart the component in it. Together
	// they are the selector of the component's workload and Services.
	LabelCloudManager = "app.huolala.cn/cloudmanager"
	LabelPart         = "app.huolala.cn/component"
	// LabelUnitedDeployment names the UnitedDeployment whose template a pod was made of. It is in the selector of the
	// Deployment and the Service, in addition to the Deployment's name.
	LabelUnitedDeployment = "app.huolala.cn/uniteddeployment"
)
